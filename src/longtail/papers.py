"""The papers behind the parts, as BibTeX: which to cite for a recipe. The one place where they are declared."""

from __future__ import annotations

from contextlib import suppress

from longtail.catalogue import learner_class, tail_class, written
from longtail.errors import RecipeError
from longtail.grammar import parse
from longtail.nn.extra import real_name

# By part: the papers that describe what it does.
LEARNERS: dict[str, tuple[str, ...]] = {
    "ance": ("xiong2021ance",),
    "astec": ("dahiya2021deepxml",),
    "bm25": ("robertson2009bm25",),
    "bonsai": ("khandagale2020bonsai",),
    "centroid": ("rocchio1971relevance",),
    "decaf": ("mittal2021decaf",),
    "depsl": ("kharbanda2025unidec",),
    "dexml": ("gupta2024dual",),
    "dismec": ("babbar2017dismec",),
    "dpr": ("karpukhin2020dense",),
    "eclare": ("mittal2021eclare",),
    "fastxml": ("prabhu2014fastxml",),
    "inceptionxml": ("kharbanda2023inceptionxml",),
    "inceptionxml-lf": ("kharbanda2023inceptionxml", "kharbanda2024gandalf"),
    "knn": ("dahiya2021deepxml",),
    "ngame": ("dahiya2023ngame",),
    "parabel": ("prabhu2018parabel",),
    "pfastrexml": ("jain2016extreme",),
    "proxml": ("babbar2019data",),
    "renee": ("jain2023renee",),
    "siamesexml": ("dahiya2021siamesexml",),
    "unidec": ("kharbanda2025unidec",),
    "xreg": ("prabhu2020extreme",),
}
TAIL_METHODS: dict[str, tuple[str, ...]] = {
    "bow": ("buvanesh2024enhancing",),
    "calibrate": ("zadrozny2002transforming",),
    "centroid": ("jain2016extreme",),
    "dexa": ("dahiya2023deep",),
    "ensemble": ("buvanesh2024enhancing",),
    "gandalf": ("kharbanda2024gandalf",),
    "glas": ("guo2019breaking",),
    "l2tie": ("buvanesh2024enhancing",),
    "labelmixup": ("kharbanda2024gandalf",),
    "lever": ("buvanesh2024enhancing",),
    "mixup": ("zhang2018mixup",),
    "ranknet": ("submission2020improving",),
    "rerank": ("submission2020improving",),
    "rows": ("jain2023renee",),
    "synonyms": ("kharbanda2024gandalf",),
    "taug": ("submission2020improving",),
}
MINILM = ("reimers2019sentence", "wang2020minilm")  # the encoder whose weights a package carries
WITHIN = ("encoder", "teacher", "warm")  # settings that may hold another recipe

_ENTRIES = {
    "babbar2017dismec": """@inproceedings{babbar2017dismec,
  author = {Babbar, Rohit and Sch{\\"o}lkopf, Bernhard},
  title = {{DiSMEC}: Distributed Sparse Machines for Extreme Multi-label Classification},
  booktitle = {WSDM},
  year = {2017}
}""",
    "babbar2019data": """@article{babbar2019data,
  author = {Babbar, Rohit and Sch{\\"o}lkopf, Bernhard},
  title = {Data scarcity, robustness and extreme multi-label classification},
  journal = {Machine Learning},
  volume = {108},
  year = {2019}
}""",
    "buvanesh2024enhancing": """@inproceedings{buvanesh2024enhancing,
  author = {Buvanesh, Anirudh and Chand, Rahul and Prakash, Jatin and Paliwal, Bhawna and Dhawan, Mudit and
            Madan, Neelabh and Hada, Deepesh and Jain, Vidit and Mehta, Sonu and Prabhu, Yashoteja and
            Gupta, Manish and Ramjee, Ramachandran and Varma, Manik},
  title = {Enhancing Tail Performance in Extreme Classifiers by Label Variance Reduction},
  booktitle = {ICLR},
  year = {2024}
}""",
    "dahiya2021deepxml": """@inproceedings{dahiya2021deepxml,
  author = {Dahiya, Kunal and Saini, Deepak and Mittal, Anshul and Shaw, Ankush and Dave, Kushal and Soni, Akshay and
            Jain, Himanshu and Agarwal, Sumeet and Varma, Manik},
  title = {{DeepXML}: A Deep Extreme Multi-Label Learning Framework Applied to Short Text Documents},
  booktitle = {WSDM},
  year = {2021}
}""",
    "dahiya2021siamesexml": """@inproceedings{dahiya2021siamesexml,
  author = {Dahiya, Kunal and Agarwal, Ananye and Saini, Deepak and Gururaj, K and Jiao, Jian and Singh, Amit and
            Agarwal, Sumeet and Kar, Purushottam and Varma, Manik},
  title = {{SiameseXML}: Siamese Networks meet Extreme Classifiers with 100M Labels},
  booktitle = {ICML},
  year = {2021}
}""",
    "dahiya2023deep": """@inproceedings{dahiya2023deep,
  author = {Dahiya, Kunal and Yadav, Sachin and Sondhi, Sushant and Saini, Deepak and Mehta, Sonu and Jiao, Jian and
            Agarwal, Sumeet and Kar, Purushottam and Varma, Manik},
  title = {Deep Encoders with Auxiliary Parameters for Extreme Classification},
  booktitle = {KDD},
  year = {2023}
}""",
    "dahiya2023ngame": """@inproceedings{dahiya2023ngame,
  author = {Dahiya, Kunal and Gupta, Nilesh and Saini, Deepak and Soni, Akshay and Wang, Yajun and Dave, Kushal and
            Jiao, Jian and Gururaj, K and Dey, Prasenjit and Singh, Amit and Hada, Deepesh and Jain, Vidit and
            Paliwal, Bhawna and Mittal, Anshul and Mehta, Sonu and Ramjee, Ramachandran and Agarwal, Sumeet and
            Kar, Purushottam and Varma, Manik},
  title = {{NGAME}: Negative Mining-aware Mini-batching for Extreme Classification},
  booktitle = {WSDM},
  year = {2023}
}""",
    "guo2019breaking": """@inproceedings{guo2019breaking,
  author = {Guo, Chuan and Mousavi, Ali and Wu, Xiang and Holtmann-Rice, Daniel N and Kale, Satyen and
            Reddi, Sashank and Kumar, Sanjiv},
  title = {Breaking the Glass Ceiling for Embedding-Based Classifiers for Large Output Spaces},
  booktitle = {NeurIPS},
  year = {2019}
}""",
    "gupta2024dual": """@inproceedings{gupta2024dual,
  author = {Gupta, Nilesh and Khatri, Devvrit and Rawat, Ankit S and Bhojanapalli, Srinadh and Jain, Prateek and
            Dhillon, Inderjit S},
  title = {Dual-Encoders for Extreme Multi-label Classification},
  booktitle = {ICLR},
  year = {2024}
}""",
    "jain2016extreme": """@inproceedings{jain2016extreme,
  author = {Jain, Himanshu and Prabhu, Yashoteja and Varma, Manik},
  title = {Extreme Multi-label Loss Functions for Recommendation, Tagging, Ranking \\& Other Missing Label
           Applications},
  booktitle = {KDD},
  year = {2016}
}""",
    "jain2023renee": """@inproceedings{jain2023renee,
  author = {Jain, Vidit and Prakash, Jatin and Saini, Deepak and Jiao, Jian and Ramjee, Ramachandran and Varma, Manik},
  title = {Ren{\\'e}e: End-to-end Training of Extreme Classification Models},
  booktitle = {MLSys},
  year = {2023}
}""",
    "karpukhin2020dense": """@inproceedings{karpukhin2020dense,
  author = {Karpukhin, Vladimir and O{\\u{g}}uz, Barlas and Min, Sewon and Lewis, Patrick and Wu, Ledell and
            Edunov, Sergey and Chen, Danqi and Yih, Wen-tau},
  title = {Dense Passage Retrieval for Open-Domain Question Answering},
  booktitle = {EMNLP},
  year = {2020}
}""",
    "khandagale2020bonsai": """@article{khandagale2020bonsai,
  author = {Khandagale, Sujay and Xiao, Han and Babbar, Rohit},
  title = {Bonsai: diverse and shallow trees for extreme multi-label classification},
  journal = {Machine Learning},
  volume = {109},
  year = {2020}
}""",
    "kharbanda2023inceptionxml": """@inproceedings{kharbanda2023inceptionxml,
  author = {Kharbanda, Siddhant and Banerjee, Atmadeep and Gupta, Devaansh and Palrecha, Akash and Babbar, Rohit},
  title = {{InceptionXML}: A Lightweight Framework with Synchronized Negative Sampling for Short Text Extreme
           Classification},
  booktitle = {SIGIR},
  year = {2023}
}""",
    "kharbanda2024gandalf": """@inproceedings{kharbanda2024gandalf,
  author = {Kharbanda, Siddhant and Gupta, Devaansh and Schultheis, Erik and Banerjee, Atmadeep and
            Hsieh, Cho-Jui and Babbar, Rohit},
  title = {Gandalf: Learning Label-Label Correlations in Extreme Multi-label Classification via Label Features},
  booktitle = {KDD},
  year = {2024}
}""",
    "kharbanda2025unidec": """@inproceedings{kharbanda2025unidec,
  author = {Kharbanda, Siddhant and Gupta, Devaansh and K, Gururaj and Malhotra, Pankaj and Singh, Amit and
            Hsieh, Cho-Jui and Babbar, Rohit},
  title = {{UniDEC}: Unified Dual Encoder and Classifier Training for Extreme Multi-Label Classification},
  booktitle = {WWW},
  year = {2025}
}""",
    "mittal2021decaf": """@inproceedings{mittal2021decaf,
  author = {Mittal, Anshul and Dahiya, Kunal and Agrawal, Sheshansh and Saini, Deepak and Agarwal, Sumeet and
            Kar, Purushottam and Varma, Manik},
  title = {{DECAF}: Deep Extreme Classification with Label Features},
  booktitle = {WSDM},
  year = {2021}
}""",
    "mittal2021eclare": """@inproceedings{mittal2021eclare,
  author = {Mittal, Anshul and Sachdeva, Noveen and Agrawal, Sheshansh and Agarwal, Sumeet and Kar, Purushottam and
            Varma, Manik},
  title = {{ECLARE}: Extreme Classification with Label Graph Correlations},
  booktitle = {WWW},
  year = {2021}
}""",
    "platt1999probabilistic": """@incollection{platt1999probabilistic,
  author = {Platt, John},
  title = {Probabilistic Outputs for Support Vector Machines and Comparisons to Regularized Likelihood Methods},
  booktitle = {Advances in Large Margin Classifiers},
  year = {1999}
}""",
    "prabhu2014fastxml": """@inproceedings{prabhu2014fastxml,
  author = {Prabhu, Yashoteja and Varma, Manik},
  title = {{FastXML}: A Fast, Accurate and Stable Tree-classifier for Extreme Multi-label Learning},
  booktitle = {KDD},
  year = {2014}
}""",
    "prabhu2018parabel": """@inproceedings{prabhu2018parabel,
  author = {Prabhu, Yashoteja and Kag, Anil and Harsola, Shrutendra and Agrawal, Rahul and Varma, Manik},
  title = {Parabel: Partitioned Label Trees for Extreme Classification with Application to Dynamic Search Advertising},
  booktitle = {WWW},
  year = {2018}
}""",
    "prabhu2020extreme": """@inproceedings{prabhu2020extreme,
  author = {Prabhu, Yashoteja and Kusupati, Aditya and Gupta, Nilesh and Varma, Manik},
  title = {Extreme Regression for Dynamic Search Advertising},
  booktitle = {WSDM},
  year = {2020}
}""",
    "reimers2019sentence": """@inproceedings{reimers2019sentence,
  author = {Reimers, Nils and Gurevych, Iryna},
  title = {{Sentence-BERT}: Sentence Embeddings using {Siamese BERT}-Networks},
  booktitle = {EMNLP-IJCNLP},
  year = {2019}
}""",
    "robertson2009bm25": """@article{robertson2009bm25,
  author = {Robertson, Stephen and Zaragoza, Hugo},
  title = {The Probabilistic Relevance Framework: {BM25} and Beyond},
  journal = {Foundations and Trends in Information Retrieval},
  volume = {3},
  year = {2009}
}""",
    "rocchio1971relevance": """@incollection{rocchio1971relevance,
  author = {Rocchio, Joseph John},
  title = {Relevance Feedback in Information Retrieval},
  booktitle = {The SMART Retrieval System: Experiments in Automatic Document Processing},
  editor = {Salton, Gerard},
  year = {1971}
}""",
    "submission2020improving": """@misc{submission2020improving,
  title = {Improving Tail Label Prediction for Extreme Multi-label Learning},
  howpublished = {Blind submission to ICLR 2021, https://openreview.net/forum?id=hUAmiQCeUGm},
  year = {2020}
}""",
    "wang2020minilm": """@inproceedings{wang2020minilm,
  author = {Wang, Wenhui and Wei, Furu and Dong, Li and Bao, Hangbo and Yang, Nan and Zhou, Ming},
  title = {{MiniLM}: Deep Self-Attention Distillation for Task-Agnostic Compression of Pre-Trained Transformers},
  booktitle = {NeurIPS},
  year = {2020}
}""",
    "xiong2021ance": """@inproceedings{xiong2021ance,
  author = {Xiong, Lee and Xiong, Chenyan and Li, Ye and Tang, Kwok-Fung and Liu, Jialin and Bennett, Paul and
            Ahmed, Junaid and Overwijk, Arnold},
  title = {Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text Retrieval},
  booktitle = {ICLR},
  year = {2021}
}""",
    "zadrozny2002transforming": """@inproceedings{zadrozny2002transforming,
  author = {Zadrozny, Bianca and Elkan, Charles},
  title = {Transforming Classifier Scores into Accurate Multiclass Probability Estimates},
  booktitle = {KDD},
  year = {2002}
}""",
    "zhang2018mixup": """@inproceedings{zhang2018mixup,
  author = {Zhang, Hongyi and Cisse, Moustapha and Dauphin, Yann N and Lopez-Paz, David},
  title = {mixup: Beyond Empirical Risk Minimization},
  booktitle = {ICLR},
  year = {2018}
}""",
}


def bibtex(recipe: str, auto: str | None = None) -> list[str]:
    """The BibTeX entries of exactly the papers behind this recipe, each once, in the order of its parts. `auto` is the
    encoder of that name; none: what it is on this machine."""
    return [_ENTRIES[key] for key in dict.fromkeys(_keys(recipe, auto or real_name("auto")))]


def _keys(recipe: str, auto: str) -> list[str]:
    learner, *tail = parse(recipe)
    found: list[str] = []
    for part in (learner, *tail):
        settings = written(part, learner_class(part.name) if part is learner else tail_class(part.name))
        if settings.get("curve") == "platt":
            found.append("platt1999probabilistic")
        else:
            found += (LEARNERS if part is learner else TAIL_METHODS).get(part.name, ())
        encoder = settings.get("encoder")
        if "minilm" in (encoder, auto if encoder == "auto" else ""):
            found += MINILM
        for name in WITHIN:
            inner = settings.get(name)
            if isinstance(inner, str):
                # What is no recipe is the folder of a saved model, whose own card names its papers.
                with suppress(RecipeError):
                    found += _keys(inner, auto)
    return found
