import sys, json, random
from pathlib import Path
sys.path.insert(0,'/tmp/w/convert')
from gtransformer.preprocess.corpus import read_documents
KEEP=5
def docs(folder,split):
    out=[]; cur=None
    a=Path(folder)/f'concatenated_en2pt_{split}_en.txt'; b=Path(folder)/f'concatenated_en2pt_{split}_pt.txt'
    for x,y in zip(a.read_text().split('\n')[:-1],b.read_text().split('\n')[:-1]):
        if x=='<d>': cur=[]; out.append(cur)
        else: cur.append((x,y))
    return out
def write(folder,split,ds):
    Path(folder).mkdir(exist_ok=True)
    for i,l in enumerate(('en','pt')):
        with open(Path(folder)/f'concatenated_en2pt_{split}_{l}.txt','w') as f:
            for d in ds:
                f.write('<d>\n'); f.writelines(p[i]+'\n' for p in d)
ell=docs('/tmp/p40/ell','train'); form=docs('/tmp/p40/form','train')
meta=json.load(open('/tmp/p40/ell/ctxpro_train.json'))
assert len(meta)==len(ell)
films=sorted({m['document id'] for m in meta}); r=random.Random(1); r.shuffle(films); held=set(films[:80])
cut=[d[-KEEP:] for d in ell]
dev=[d for d,m in zip(cut,meta) if m['document id'] in held]
tr=[d for d,m in zip(cut,meta) if m['document id'] not in held]
lib=docs('/tmp/corpora/libreoffice-en-pt','train'); r=random.Random(2); r.shuffle(lib); lib=lib[:len(lib)//7]
ftr=[d[-KEEP:] for d in form]
train=tr+ftr+lib; random.Random(3).shuffle(train)
libdev=docs('/tmp/corpora/libreoffice-en-pt','dev')[:12]
write('/tmp/p40/proof','train',train); write('/tmp/p40/proof','dev',dev+libdev)
write('/tmp/p40/proof','test',docs('/tmp/corpora/libreoffice-en-pt','test'))
print(len(tr),len(ftr),len(lib),sum(map(len,lib)),len(dev),len(libdev), 'train sentences',sum(map(len,train)))
