/** The story in English. Names in braces are filled in; zh.ts has the same keys and names. */

export const EN = {
  name: "English",
  title: "Attention in seven screens",
  lead: "Each screen has a live figure and one thing to do. The numbers are those of the models on this page.",
  screens: "Screens",
  language: "Language",
  try: "Try it",
  waiting: "The model is at work …",
  missing: "No such model is served here. seq2seq-attn serve, without a run, serves one.",
  noExamples: "The models here have no test set, so there are no sentences of several lengths.",
  example: "No model here shows this, so the figure is a worked example: each word is a vector of two numbers.",
  word: "word",
  score: "score e",
  weight: "weight a",
  sum: "sum",

  vectorTitle: "One vector",
  vectorText: "An encoder reads the sentence word by word and keeps one vector, C. The decoder writes the translation from C alone: at every step it reads the same C.",
  vectorTry: "Choose another sentence. All of it has to fit into C.",
  vectorLink: "This translation on the page",

  breaksTitle: "Where it breaks",
  breaksText: "C is as large for three words as for fifty. The longer the sentence, the more is lost: the translation stays fluent, but it becomes that of another sentence. A model with attention reads the source again at every step.",
  breaksTry: "Make the sentence longer, and watch the marked words.",
  breaksLink: "Both translations on the page",
  breaksLength: "Sentence of {count} words",
  reference: "reference",
  oneVector: "one vector",
  attention: "attention",
  same: "{same} of {all} words as in the reference",

  scoreTitle: "A score",
  scoreText: "Attention keeps the state h of every source word. Before it writes a word, the decoder compares its own state H with each of them. A scorer F turns each pair into one number: e = F(h, H). The higher it is, the more this source word matters now.",
  scoreTry: "Choose a word of the translation. Which source word has the highest score?",
  scoreLink: "This step on the page",
  translation: "Words of the translation",

  softmaxTitle: "Softmax",
  softmaxText: "Scores can be any numbers. Softmax turns them into weights: all positive, and 1 in sum. The temperature t says how sharp they are; the model has t = 1.",
  softmaxTry: "Move the temperature. Near 0 one word takes everything; at high t all words count the same.",
  softmaxLink: "These scores in the walk",
  temperature: "Temperature t",

  contextTitle: "The context C",
  contextText: "C is the mean of the states under the weights: C = Σ a h, one arrow for each word, put head to tail. Each step has weights of its own, so each step reads a C of its own.",
  contextTry: "Add the arrows. Then choose another word or temperature on the screens above.",
  contextAdd: "Add the arrows",
  contextLink: "Walk with these numbers",
  contextShare: "The plane shows {share} % of the variance of the states; sums are exact in it.",

  selfTitle: "Self-attention",
  selfText: "The same three steps work within one sentence. Each word asks, and the words of the same sentence answer: score, softmax, sum. A Transformer reads a sentence like this, with no recurrence.",
  selfTry: "Choose a row, the word that asks. Which words answer?",
  selfLink: "The Transformer on the page",
  selfReads: "{word} reads {most} most: {weight}",

  headsTitle: "Heads",
  headsText: "One row of weights looks at the sentence in one way. A Transformer looks several times side by side: each head has its own scorer, and what all of them read is joined.",
  headsTry: "Choose a head. Does it look where the others look?",
  headsLink: "This head on the page",
  head: "Head {number}",
  layerHead: "Layer {layer}, head {number}",
};

export type Texts = typeof EN;
