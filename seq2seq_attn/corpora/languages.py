"""The codes of languages, one for each however it is written, and those with rules of Moses; scripts without spaces."""

from __future__ import annotations

import re
import unicodedata

# Each language: its code, which is that of ISO 639-1 if it has one; other codes, of ISO 639-2 and 639-3, and codes of
# countries that are often written instead; its English names.
_TABLE = """
aa aar: Afar; ab abk: Abkhaz, Abkhazian; ae ave: Avestan; af afr: Afrikaans; ak aka: Akan; am amh: Amharic;
an arg: Aragonese; ar ara arb: Arabic; as asm: Assamese; av ava: Avar, Avaric; ay aym: Aymara;
az aze azj: Azerbaijani; ba bak: Bashkir; be bel: Belarusian; bg bul: Bulgarian; bi bis: Bislama;
bm bam: Bambara; bn ben: Bengali, Bangla; bo bod tib: Tibetan; br bre: Breton; bs bos: Bosnian;
ca cat: Catalan, Valencian; ce che: Chechen; ch cha: Chamorro; co cos: Corsican; cr cre: Cree;
cs ces cze cz: Czech; cu chu: Church Slavonic; cv chv: Chuvash; cy cym wel: Welsh; da dan dk: Danish;
de deu ger: German; dv div: Divehi, Dhivehi; dz dzo: Dzongkha; ee ewe: Ewe; el ell gre gr: Greek;
en eng: English; eo epo: Esperanto; es spa: Spanish, Castilian; et ekk est: Estonian; eu baq eus: Basque;
fa fas per pes: Persian, Farsi; ff ful: Fula, Fulah; fi fin: Finnish; fj fij: Fijian; fo fao: Faroese;
fr fra fre: French; fy fry: Frisian, Western Frisian; ga gle: Irish; gd gla: Scottish Gaelic, Gaelic;
gl glg: Galician; gn grn: Guarani; gu guj: Gujarati; gv glv: Manx; ha hau: Hausa; he heb iw: Hebrew;
hi hin: Hindi; ho hmo: Hiri Motu; hr hrv: Croatian; ht hat: Haitian, Haitian Creole; hu hun: Hungarian;
hy arm hye: Armenian; hz her: Herero; ia ina: Interlingua; id ind: Indonesian; ie ile: Interlingue; ig ibo: Igbo;
ii iii: Sichuan Yi; ik ipk: Inupiaq; io ido: Ido; is ice isl: Icelandic; it ita: Italian; iu iku: Inuktitut;
ja jpn jp: Japanese; jv jav: Javanese; ka geo kat: Georgian; kg kon: Kongo; ki kik: Kikuyu; kj kua: Kuanyama;
kk kaz: Kazakh; kl kal: Greenlandic, Kalaallisut; km khm: Khmer; kn kan: Kannada; ko kor: Korean; kr kau: Kanuri;
ks kas: Kashmiri; ku kmr kur: Kurdish; kv kom: Komi; kw cor: Cornish; ky kir: Kyrgyz, Kirghiz; la lat: Latin;
lb ltz: Luxembourgish; lg lug: Ganda, Luganda; li lim: Limburgish; ln lin: Lingala; lo lao: Lao;
lt lit: Lithuanian; lu lub: Luba-Katanga; lv lav lvs: Latvian; mg mlg plt: Malagasy; mh mah: Marshallese;
mi mao mri: Maori; mk mac mkd: Macedonian; ml mal: Malayalam; mn khk mon: Mongolian; mni: Manipuri, Meitei;
mr mar: Marathi; ms may msa zsm: Malay; mt mlt: Maltese; my bur mya: Burmese, Myanmar; na nau: Nauru;
nb nob: Bokmål; nd nde: North Ndebele; ne nep npi: Nepali; ng ndo: Ndonga; nl dut nld: Dutch, Flemish;
nn nno: Nynorsk; no nor: Norwegian; nr nbl: South Ndebele; nv nav: Navajo; ny nya: Nyanja, Chichewa;
oc oci: Occitan; oj oji: Ojibwa; om gaz orm: Oromo; or ori ory: Oriya, Odia; os oss: Ossetic;
pa pan: Punjabi, Panjabi; pi pli: Pali; pl pol: Polish; ps pbt pus: Pashto; pt por: Portuguese; qu que: Quechua;
rm roh: Romansh; rn run: Rundi, Kirundi; ro mol ron rum: Romanian, Moldovan; ru rus: Russian;
rw kin: Kinyarwanda; sa san: Sanskrit; sc srd: Sardinian; sd snd: Sindhi; se sme: Northern Sami; sg sag: Sango;
sh hbs: Serbo-Croatian; si sin: Sinhala, Sinhalese; sk slk slo: Slovak; sl slv: Slovenian, Slovene;
sm smo: Samoan; sn sna: Shona; so som: Somali; sq alb als sqi: Albanian; sr srp: Serbian; ss ssw: Swati;
st sot: Sotho, Southern Sotho; su sun: Sundanese; sv swe: Swedish; sw swa swh: Swahili; ta tam: Tamil;
tdt tet: Tetun, Tetum; te tel: Telugu; tg tgk: Tajik; th tha: Thai; ti tir: Tigrinya; tk tuk: Turkmen;
tl tgl: Tagalog; tn tsn: Tswana; to ton: Tongan; tr tur: Turkish; ts tso: Tsonga; tt tat: Tatar; tw twi: Twi;
ty tah: Tahitian; ug uig: Uyghur, Uighur; uk ukr ua: Ukrainian; ur urd: Urdu; uz uzb uzn: Uzbek; ve ven: Venda;
vi vie: Vietnamese; vo vol: Volapük; wa wln: Walloon; wo wol: Wolof; xh xho: Xhosa; yi ydd yid: Yiddish;
yo yor: Yoruba; yue: Cantonese; za zha: Zhuang; zh chi cmn zho cn: Chinese, Mandarin; zu zul: Zulu
"""

# Those that sacremoses has rules for: abbreviations, or the letters of the script.
_MOSES = """
as bn ca cs de el en es et fi fr ga gu hi hu is it ja kn ko lt lv ml mni mr nl or pa pl pt ro ru sk sl sv ta tdt te
yue zh
"""
MOSES = tuple(_MOSES.split())

_LOCALE = re.compile(r"([a-z]{2,3})(?:[-_](?:[a-z]{4}|[a-z]{2}|[0-9]{3}))+", re.IGNORECASE)  # fr-FR, eng_Latn


def _read_table() -> dict[str, str]:
    codes: dict[str, str] = {}
    for entry in _TABLE.split(";"):
        known, names = entry.split(":")
        code, *others = known.split()
        codes |= dict.fromkeys([code, *others, *(name.strip().casefold() for name in names.split(","))], code)
    return codes


_CODES = _read_table()


def language_code(text: str) -> str:
    """The code of a language that is given by a code of ISO 639, with a script or a region or without, or by its name.

    `fra`, `fre`, `fr-FR`, `fr_FR` and `French` give `fr`. A text that is no known language is returned as it is.
    """
    name = text.strip().casefold()
    locale = _LOCALE.fullmatch(name)
    return _CODES.get(name) or _CODES.get(locale[1] if locale else "") or text


def without_rules(code: str) -> str | None:
    """Why the rules of Moses cannot be applied to a `language_code`; None if they can."""
    if code in MOSES:
        return None
    return f"the rules of Moses are for the languages {', '.join(MOSES)}; {code!r} is none of them"


def is_unspaced(text: str) -> bool:
    """Whether a text begins in a script that puts no spaces between words, such as Chinese, Japanese or Thai.

    >>> is_unspaced("猫"), is_unspaced("cat")
    (True, False)
    """
    scripts = "CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR"
    return bool(text) and unicodedata.name(text[0], "").startswith(scripts)
