#!/usr/bin/env bash
# Installs JoeyNMT and OpenNMT-py, and prepares the common task: the same files for all systems.
#
#   setup.sh FOLDER [MULTI30K]     MULTI30K: from `seq2seq-attn data get multi30k-en-de`; by default in data/downloaded/
#
# FOLDER/venv    the peers' own environment, with the torch release that this project is measured with
# FOLDER/data    train, val and test, lowercased and tokenized, in a joint BPE of 8,000 merges; the vocabulary
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
multi30k=$(cd "${2:-$root/data/downloaded/multi30k-en-de}" && pwd)

# The measured releases pin an older torch. Installed without their dependencies, they run with this one after three
# changes: an argument that schedulers no longer accept, checkpoints that contain more than tensors, and two transforms
# (unused here) whose packages cannot be installed.
python=$folder/venv/bin/python
[ -x "$python" ] || python3 -m venv "$folder/venv"
"$python" -m pip install --quiet torch==2.13.0 numpy
"$python" -m pip install --quiet --no-deps joeynmt==2.3.0 OpenNMT-py==3.5.1
"$python" -m pip install --quiet sacrebleu subword-nmt sentencepiece sacremoses pyyaml datasets tensorboard matplotlib \
    packaging setuptools ConfigArgParse ctranslate2 pyonmttok waitress flask rapidfuzz pyahocorasick six \
    importlib_metadata portalocker psutil lazy-importer
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
sed -i '/"verbose": False,/d' "$site/joeynmt/builders.py"
sed -i 's/map_location=torch.device("cpu"))/map_location=torch.device("cpu"), weights_only=False)/' \
    "$site/onmt/models/model_saver.py"
rm -f "$site/onmt/transforms/clean.py" "$site/onmt/transforms/terminology.py"

mkdir -p "$folder/data"
cd "$folder/data"
bpe=$folder/venv/bin/subword-nmt
for language in en de; do
    for part in train val test; do
        name=${part/test/test_2016_flickr}
        gzip -dc "$multi30k/$name.lc.norm.tok.$language.gz" > "$part.tok.$language"
    done
done
cat train.tok.en train.tok.de | "$bpe" learn-bpe -s 8000 > codes.bpe
for language in en de; do
    for part in train val test; do
        "$bpe" apply-bpe -c codes.bpe < "$part.tok.$language" > "$part.bpe.$language"
    done
done
cat train.bpe.en train.bpe.de | "$bpe" get-vocab | cut -d' ' -f1 > joint.vocab
{ printf '%s\n' '<unk>' '<blank>' '<s>' '</s>'; cat joint.vocab; } > onmt.vocab  # the format of OpenNMT-py
wc -l train.bpe.en joint.vocab
