/** The story in Chinese; en.ts has the same keys. */

import type { Texts } from "./en.ts";

export const ZH: Texts = {
  name: "中文",
  title: "七屏看懂注意力",
  lead: "每一屏有一张可以操作的图，和一件可以动手做的事。图中的数字都来自本页的模型。",
  screens: "各屏",
  language: "语言",
  try: "动手",
  waiting: "模型正在计算……",
  missing: "这里没有这样的模型。不带参数运行 seq2seq-attn serve，就会有一个。",
  noExamples: "这里的模型没有测试集，所以没有长短不同的句子。",
  example: "这里的模型都不能显示这一步，所以图中是一个手算的例子：每个词是由两个数组成的向量。",
  word: "词",
  score: "得分 e",
  weight: "权重 a",
  sum: "总和",

  vectorTitle: "一个向量",
  vectorText: "编码器逐词读完句子，只留下一个向量 C。解码器单凭 C 写出译文：每一步读到的都是同一个 C。",
  vectorTry: "换一个句子。整句话都必须装进 C。",
  vectorLink: "在页面上看这个译文",

  breaksTitle: "它在哪里失败",
  breaksText: "三个词的句子和五十个词的句子，C 一样大。句子越长，丢掉的越多：译文仍然通顺，却成了另一句话的译文。有注意力的模型在每一步都会重读原文。",
  breaksTry: "把句子变长，留意标出的词。",
  breaksLink: "在页面上比较两个译文",
  breaksLength: "{count} 个词的句子",
  reference: "参考译文",
  oneVector: "一个向量",
  attention: "注意力",
  same: "参考译文的 {all} 个词中，有 {same} 个相同",

  scoreTitle: "一个得分",
  scoreText: "注意力保留每个原文词的状态 h。写每个词之前，解码器把自己的状态 H 同每个 h 比较。打分函数 F 把每一对变成一个数：e = F(h, H)。得分越高，这个原文词此刻越重要。",
  scoreTry: "选译文中的一个词。哪个原文词得分最高？",
  scoreLink: "在页面上看这一步",
  translation: "译文的词",

  softmaxTitle: "Softmax",
  softmaxText: "得分可以是任何数。Softmax 把它们变成权重：全是正数，总和为 1。温度 t 决定权重有多集中；模型用的是 t = 1。",
  softmaxTry: "移动温度。接近 0 时，一个词独占全部；t 很大时，各词平分。",
  softmaxLink: "在演练中看这些得分",
  temperature: "温度 t",

  contextTitle: "上下文 C",
  contextText: "C 是各状态按权重的平均：C = Σ a h，每个词一支箭头，首尾相接。每一步有自己的权重，所以每一步读到自己的 C。",
  contextTry: "把箭头加起来。然后在上面两屏换一个词或温度，再看一次。",
  contextAdd: "加上箭头",
  contextLink: "用这些数字演练",
  contextShare: "这个平面显示了各状态方差的 {share} %；向量之和在其中是精确的。",

  selfTitle: "自注意力",
  selfText: "同样的三步也能用在一个句子之内。每个词发问，同一句中的词来回答：打分、softmax、求和。Transformer 就这样读句子，不需要循环。",
  selfTry: "选一行，也就是发问的词。哪些词在回答？",
  selfLink: "在页面上看 Transformer",
  selfReads: "{word} 读得最多的是 {most}：{weight}",

  headsTitle: "多头",
  headsText: "一行权重只能以一种方式看句子。Transformer 同时看好几遍：每个头有自己的打分函数，各头读到的再合在一起。",
  headsTry: "选一个头。它看的地方和别的头一样吗？",
  headsLink: "在页面上看这个头",
  head: "第 {number} 头",
  layerHead: "第 {layer} 层，第 {number} 头",
};
