"""The words of the grammar: English forms, the Chinese translation, and grammatical properties.

Chinese is simplified and segmented: a 的 or 地 that only forms an adjective, pronoun or adverb belongs to that word,
whereas 了, and the 的 of possessors and clauses, are words of their own. Within a table an English word has one Chinese
translation, so the word and its construction determine the translation. `glosses` goes the other way, for readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, TypeVar

from generator.grammar import Phrase, word

_Row = TypeVar("_Row")


class Invariable(NamedTuple):
    """A word with a single form in both languages."""

    english: str
    chinese: str

    @property
    def phrase(self) -> Phrase:
        return word(self.english, self.chinese)


class Noun(NamedTuple):
    singular: str
    plural: str
    chinese: str
    measure: str  # measure word between a number or demonstrative and this noun

    def phrase(self, plural: bool) -> Phrase:
        return word(self.plural if plural else self.singular, self.chinese)


class Verb(NamedTuple):
    base: str
    third: str
    past: str  # also the participle
    progressive: str
    chinese: str

    def phrase(self, form: Literal["base", "third", "past", "progressive"]) -> Phrase:
        english: str = getattr(self, form)
        return word(english, self.chinese)


class Adjective(NamedTuple):
    positive: str
    comparative: str
    chinese: str

    @property
    def before_noun(self) -> Phrase:
        """As an attribute: an adjective of one syllable directly precedes its noun, a longer one takes 的."""
        return word(self.positive, self.chinese if len(self.chinese) == 1 else f"{self.chinese}的")


def _table(row: Callable[..., _Row], text: str) -> tuple[_Row, ...]:
    """The rows of a table, one per line."""
    return tuple(row(*line.split()) for line in text.strip().splitlines())


NAMES = _table(
    Invariable,
    """
    Tom      汤姆
    Jerry    杰瑞
    Spike    斯派克
    Butch    布奇
    Anna     安娜
    Peter    彼得
    Mary     玛丽
    David    大卫
    Emma     艾玛
    Paul     保罗
    """,
)

CREATURES = _table(
    Noun,
    """
    cat       cats       猫    只
    dog       dogs       狗    条
    mouse     mice       老鼠  只
    bird      birds      鸟    只
    rabbit    rabbits    兔子  只
    monkey    monkeys    猴子  只
    fox       foxes      狐狸  只
    horse     horses     马    匹
    elephant  elephants  大象  头
    snake     snakes     蛇    条
    boy       boys       男孩  个
    girl      girls      女孩  个
    teacher   teachers   老师  位
    doctor    doctors    医生  位
    farmer    farmers    农民  名
    soldier   soldiers   士兵  名
    """,
)

THINGS = _table(
    Noun,
    """
    book      books      书      本
    hat       hats       帽子    顶
    car       cars       汽车    辆
    bicycle   bicycles   自行车  辆
    flower    flowers    花      朵
    letter    letters    信      封
    chair     chairs     椅子    把
    umbrella  umbrellas  雨伞    把
    key       keys       钥匙    把
    photo     photos     照片    张
    cake      cakes      蛋糕    块
    apple     apples     苹果    个
    shirt     shirts     衬衫    件
    lamp      lamps      台灯    盏
    """,
)

LOCATIONS = _table(
    Invariable,
    """
    park     公园
    kitchen  厨房
    garden   花园
    school   学校
    forest   森林
    village  村子
    market   市场
    station  车站
    hotel    酒店
    library  图书馆
    """,
)

PREPOSITIONS = _table(
    Invariable,
    """
    in       里
    near     附近
    behind   后面
    outside  外面
    beside   旁边
    """,
)

# Verbs with an animate object: all of them are compatible with 了, 正在 and 被.
DEEDS = _table(
    Verb,
    """
    chase    chases    chased    chasing     追逐
    help     helps     helped    helping     帮助
    hug      hugs      hugged    hugging     拥抱
    kick     kicks     kicked    kicking     踢
    follow   follows   followed  following   跟踪
    catch    catches   caught    catching    抓
    save     saves     saved     saving      救
    praise   praises   praised   praising    表扬
    thank    thanks    thanked   thanking    感谢
    push     pushes    pushed    pushing     推
    kiss     kisses    kissed    kissing     亲吻
    protect  protects  protected protecting  保护
    """,
)

# Verbs with an inanimate object.
CHORES = _table(
    Verb,
    """
    buy      buys      bought    buying      买
    wash     washes    washed    washing     洗
    carry    carries   carried   carrying    搬
    repair   repairs   repaired  repairing   修理
    collect  collects  collected collecting  收集
    burn     burns     burned    burning     烧
    check    checks    checked   checking    检查
    clean    cleans    cleaned   cleaning    擦
    """,
)

# Intransitive verbs.
ACTIVITIES = _table(
    Verb,
    """
    rest      rests      rested     resting      休息
    cry       cries      cried      crying       哭
    work      works      worked     working      工作
    cough     coughs     coughed    coughing     咳嗽
    exercise  exercises  exercised  exercising   锻炼
    escape    escapes    escaped    escaping     逃跑
    """,
)

# Ditransitive verbs; Chinese adds 给.
TRANSFERS = _table(
    Verb,
    """
    sell    sells    sold      selling    卖
    lend    lends    lent      lending    借
    mail    mails    mailed    mailing    寄
    hand    hands    handed    handing    交
    return  returns  returned  returning  还
    """,
)

# Verbs with a clause as object.
SPEECH = _table(
    Verb,
    """
    say      says      said      saying     说
    think    thinks    thought   thinking   认为
    know     knows     knew      knowing    知道
    hear     hears     heard     hearing    听说
    believe  believes  believed  believing  相信
    """,
)

TEMPERS = _table(
    Adjective,
    """
    big      bigger     大
    small    smaller    小
    lazy     lazier     懒
    fat      fatter     胖
    thin     thinner    瘦
    silly    sillier    笨
    clever   cleverer   聪明
    brave    braver     勇敢
    young    younger    年轻
    kind     kinder     善良
    angry    angrier    愤怒
    """,
)

LOOKS = _table(
    Invariable,
    """
    red     红
    green   绿
    blue    蓝
    white   白
    black   黑
    yellow  黄
    new     新
    old     旧
    dirty   脏
    good    好
    """,
)

MANNERS = _table(
    Invariable,
    """
    quietly    悄悄地
    carefully  小心地
    happily    高兴地
    angrily    生气地
    secretly   偷偷地
    slowly     慢慢地
    quickly    飞快地
    proudly    骄傲地
    """,
)

FREQUENCY_ADVERBS = _table(
    Invariable,
    """
    often      经常
    always     总是
    sometimes  有时
    usually    通常
    """,
)

MODALS = _table(
    Invariable,
    """
    can     能
    may     可以
    should  应该
    """,
)

NUMBERS = _table(
    Invariable,
    """
    two    两
    three  三
    four   四
    five   五
    six    六
    seven  七
    eight  八
    nine   九
    ten    十
    """,
)

OWNERS = _table(
    Invariable,
    """
    my     我的
    your   你的
    our    我们的
    their  他们的
    """,
)

WEEKDAYS = _table(
    Invariable,
    """
    Monday     星期一
    Tuesday    星期二
    Wednesday  星期三
    Thursday   星期四
    Friday     星期五
    Saturday   星期六
    Sunday     星期天
    """,
)

LONG_AGO = (Invariable("last week", "上周"), Invariable("last month", "上个月"), Invariable("last year", "去年"))
LATER = (Invariable("next week", "下周"), Invariable("next month", "下个月"), Invariable("next year", "明年"))

DAY_PARTS = _table(
    Invariable,
    """
    morning    早上
    afternoon  下午
    evening    晚上
    """,
)

# Words of constructions, which are in no table of the word list; with a function in brackets where English has no word.
_CONSTRUCTIONS = {
    "的": "'s/that", "了": "(done)", "正在": "(doing)", "会": "will", "不": "not", "没有": "did not",
    "被": "by", "把": "(object)", "给": "to", "在": "at", "有": "there is", "很": "(is)", "比": "than",
    "一": "a", "这": "this", "这些": "these", "几": "how many", "和": "and",
    "今天": "today", "昨天": "yesterday", "明天": "tomorrow", "每天": "every day",
    "因为": "because", "所以": "so", "虽然": "although", "但是": "but", "不过": "yet", "如果": "if", "当": "when",
    "时": "(when)", "之后": "after", "然后": "then", "而": "while", "或者": "or",
    "谁": "who", "什么": "what", "哪里": "where", "为什么": "why", "吗": "(question)",
    "，": ",", "。": ".", "？": "?",
}  # fmt: skip


def glosses() -> dict[str, str]:
    """An English gloss for each Chinese word."""
    return {**dict(_rows_of_tables()), **_CONSTRUCTIONS}


def _rows_of_tables() -> Iterator[tuple[str, str]]:
    for table in list(globals().values()):
        for row in table if isinstance(table, tuple) else ():
            if isinstance(row, Noun):
                yield from ((row.chinese, row.singular), (row.measure, "(measure)"))
            elif isinstance(row, Verb):
                yield row.chinese, row.base
            elif isinstance(row, Adjective):
                yield from ((row.chinese, row.positive), (row.before_noun.target[0], row.positive))
            else:
                yield row.chinese, row.english
