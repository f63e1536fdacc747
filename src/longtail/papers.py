"""The papers behind the methods: one entry each, from which citations in help, pages and model cards are written, and
the presets of methods: the settings that a paper prints, with the place where it prints them.

A method names its papers in `papers: ClassVar[tuple[Paper, ...]]`; a paper that only one method needs may be declared
there, in the method's own file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Paper:
    """A paper as BibTeX. Names, title, venue and year are read from it, so that they stand nowhere else.

    >>> FASTXML.citation[:40]
    'Prabhu and Varma: FastXML: A Fast, Accur'
    """

    bibtex: str

    def __post_init__(self) -> None:
        if not re.match(r"@\w+\{\w+,\n", self.bibtex) or not (self._field("title") and self._field("year")):
            raise ValueError(f"a paper is a BibTeX entry with a key, a title and a year, got {self.bibtex[:60]!r}")

    @property
    def key(self) -> str:
        """What a LaTeX document cites it by."""
        return self.bibtex.partition("{")[2].partition(",")[0]

    @property
    def citation(self) -> str:
        """One line for people: authors, title, venue and year."""
        names = [name.split(",")[0] for name in re.split(r"\s+and\s+", self._field("author")) if name]
        who = f"{names[0]} et al." if len(names) > 2 else " and ".join(names)
        venue = self._field("booktitle") or self._field("journal") or self._field("howpublished").partition(",")[0]
        where = venue if re.search(r"\d{4}$", venue) else f"{venue} {self._field('year')}".strip()
        return f"{who}: {self._field('title')} ({where})" if who else f"{self._field('title')} ({where})"

    def _field(self, name: str) -> str:
        found = re.search(rf"^  {name} = \{{(.*?)\}},?$", self.bibtex, re.MULTILINE | re.DOTALL)
        if found is None:
            return ""
        accents = {r"{\"o}": "ö", r"{\"u}": "ü", r"{\'e}": "é", r"\&": "&"}
        text = found[1]
        for written, letter in accents.items():
            text = text.replace(written, letter)
        return " ".join(re.sub(r"[{}]", "", text).split())


@dataclass(frozen=True)
class Preset:
    """Settings of a part under one name: `lever:paper`. Its class carries them in `presets`, by name.

    >>> Preset({"epochs": 100, "dropout": 0.85}, "table 19", {"dropout": "appendix C"}).source_of("dropout")
    'appendix C'
    """

    settings: Mapping[str, Any]
    source: str  # where the paper prints them: section, table
    sources: Mapping[str, str] = field(default_factory=dict)  # of single settings that stand elsewhere
    differs: str = ""  # what is still not as in the paper

    def __post_init__(self) -> None:
        unknown = [name for name in self.sources if name not in self.settings]
        if unknown or not self.source:
            raise ValueError(f"a preset says where its settings come from, and only of those it has, got {unknown}")

    def source_of(self, setting: str) -> str:
        """Where the paper prints a setting.

        Args:
            setting: one that the preset sets.

        Returns:
            The section or table.
        """
        return self.sources.get(setting, self.source)


ANCE = Paper(r"""@inproceedings{xiong2021ance,
  author = {Xiong, Lee and Xiong, Chenyan and Li, Ye and Tang, Kwok-Fung and Liu, Jialin and Bennett, Paul and
            Ahmed, Junaid and Overwijk, Arnold},
  title = {Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text Retrieval},
  booktitle = {ICLR},
  year = {2021}
}""")
BM25 = Paper(r"""@article{robertson2009bm25,
  author = {Robertson, Stephen and Zaragoza, Hugo},
  title = {The Probabilistic Relevance Framework: {BM25} and Beyond},
  journal = {Foundations and Trends in Information Retrieval},
  volume = {3},
  year = {2009}
}""")
BONSAI = Paper(r"""@article{khandagale2020bonsai,
  author = {Khandagale, Sujay and Xiao, Han and Babbar, Rohit},
  title = {Bonsai: diverse and shallow trees for extreme multi-label classification},
  journal = {Machine Learning},
  volume = {109},
  year = {2020}
}""")
DECAF = Paper(r"""@inproceedings{mittal2021decaf,
  author = {Mittal, Anshul and Dahiya, Kunal and Agrawal, Sheshansh and Saini, Deepak and Agarwal, Sumeet and
            Kar, Purushottam and Varma, Manik},
  title = {{DECAF}: Deep Extreme Classification with Label Features},
  booktitle = {WSDM},
  year = {2021}
}""")
DEEPXML = Paper(r"""@inproceedings{dahiya2021deepxml,
  author = {Dahiya, Kunal and Saini, Deepak and Mittal, Anshul and Shaw, Ankush and Dave, Kushal and Soni, Akshay and
            Jain, Himanshu and Agarwal, Sumeet and Varma, Manik},
  title = {{DeepXML}: A Deep Extreme Multi-Label Learning Framework Applied to Short Text Documents},
  booktitle = {WSDM},
  year = {2021}
}""")
DEXA = Paper(r"""@inproceedings{dahiya2023deep,
  author = {Dahiya, Kunal and Yadav, Sachin and Sondhi, Sushant and Saini, Deepak and Mehta, Sonu and Jiao, Jian and
            Agarwal, Sumeet and Kar, Purushottam and Varma, Manik},
  title = {Deep Encoders with Auxiliary Parameters for Extreme Classification},
  booktitle = {KDD},
  year = {2023}
}""")
DEXML = Paper(r"""@inproceedings{gupta2024dual,
  author = {Gupta, Nilesh and Khatri, Devvrit and Rawat, Ankit S and Bhojanapalli, Srinadh and Jain, Prateek and
            Dhillon, Inderjit S},
  title = {Dual-Encoders for Extreme Multi-label Classification},
  booktitle = {ICLR},
  year = {2024}
}""")
DISMEC = Paper(r"""@inproceedings{babbar2017dismec,
  author = {Babbar, Rohit and Sch{\"o}lkopf, Bernhard},
  title = {{DiSMEC}: Distributed Sparse Machines for Extreme Multi-label Classification},
  booktitle = {WSDM},
  year = {2017}
}""")
DPR = Paper(r"""@inproceedings{karpukhin2020dense,
  author = {Karpukhin, Vladimir and O{\u{g}}uz, Barlas and Min, Sewon and Lewis, Patrick and Wu, Ledell and
            Edunov, Sergey and Chen, Danqi and Yih, Wen-tau},
  title = {Dense Passage Retrieval for Open-Domain Question Answering},
  booktitle = {EMNLP},
  year = {2020}
}""")
ECLARE = Paper(r"""@inproceedings{mittal2021eclare,
  author = {Mittal, Anshul and Sachdeva, Noveen and Agrawal, Sheshansh and Agarwal, Sumeet and Kar, Purushottam and
            Varma, Manik},
  title = {{ECLARE}: Extreme Classification with Label Graph Correlations},
  booktitle = {WWW},
  year = {2021}
}""")
ELMO = Paper(r"""@inproceedings{zhang2025elmo,
  author = {Zhang, Jinbin and Ullah, Nasib and Schultheis, Erik and Babbar, Rohit},
  title = {{ELMO}: Efficiency via Low-precision and Peak Memory Optimization in Large Output Spaces},
  booktitle = {ICML},
  year = {2025}
}""")
FASTXML = Paper(r"""@inproceedings{prabhu2014fastxml,
  author = {Prabhu, Yashoteja and Varma, Manik},
  title = {{FastXML}: A Fast, Accurate and Stable Tree-classifier for Extreme Multi-label Learning},
  booktitle = {KDD},
  year = {2014}
}""")
GANDALF = Paper(r"""@inproceedings{kharbanda2024gandalf,
  author = {Kharbanda, Siddhant and Gupta, Devaansh and Schultheis, Erik and Banerjee, Atmadeep and
            Hsieh, Cho-Jui and Babbar, Rohit},
  title = {Gandalf: Learning Label-Label Correlations in Extreme Multi-label Classification via Label Features},
  booktitle = {KDD},
  year = {2024}
}""")
GLAS = Paper(r"""@inproceedings{guo2019breaking,
  author = {Guo, Chuan and Mousavi, Ali and Wu, Xiang and Holtmann-Rice, Daniel N and Kale, Satyen and
            Reddi, Sashank and Kumar, Sanjiv},
  title = {Breaking the Glass Ceiling for Embedding-Based Classifiers for Large Output Spaces},
  booktitle = {NeurIPS},
  year = {2019}
}""")
HIERARCHICAL = Paper(r"""@article{silla2011survey,
  author = {Silla, Carlos N. and Freitas, Alex A.},
  title = {A Survey of Hierarchical Classification across Different Application Domains},
  journal = {Data Mining and Knowledge Discovery},
  volume = {22},
  year = {2011}
}""")
INCEPTIONXML = Paper(r"""@inproceedings{kharbanda2023inceptionxml,
  author = {Kharbanda, Siddhant and Banerjee, Atmadeep and Gupta, Devaansh and Palrecha, Akash and Babbar, Rohit},
  title = {{InceptionXML}: A Lightweight Framework with Synchronized Negative Sampling for Short Text Extreme
           Classification},
  booktitle = {SIGIR},
  year = {2023}
}""")
ISOTONIC = Paper(r"""@inproceedings{zadrozny2002transforming,
  author = {Zadrozny, Bianca and Elkan, Charles},
  title = {Transforming Classifier Scores into Accurate Multiclass Probability Estimates},
  booktitle = {KDD},
  year = {2002}
}""")
LEVER = Paper(r"""@inproceedings{buvanesh2024enhancing,
  author = {Buvanesh, Anirudh and Chand, Rahul and Prakash, Jatin and Paliwal, Bhawna and Dhawan, Mudit and
            Madan, Neelabh and Hada, Deepesh and Jain, Vidit and Mehta, Sonu and Prabhu, Yashoteja and
            Gupta, Manish and Ramjee, Ramachandran and Varma, Manik},
  title = {Enhancing Tail Performance in Extreme Classifiers by Label Variance Reduction},
  booktitle = {ICLR},
  year = {2024}
}""")
LIGHTGBM = Paper(r"""@inproceedings{ke2017lightgbm,
  author = {Ke, Guolin and Meng, Qi and Finley, Thomas and Wang, Taifeng and Chen, Wei and Ma, Weidong and
            Ye, Qiwei and Liu, Tie-Yan},
  title = {{LightGBM}: A Highly Efficient Gradient Boosting Decision Tree},
  booktitle = {NIPS},
  year = {2017}
}""")
CASCADEXML = Paper(r"""@inproceedings{kharbanda2022cascadexml,
  author = {Kharbanda, Siddhant and Banerjee, Atmadeep and Schultheis, Erik and Babbar, Rohit},
  title = {{CascadeXML}: Rethinking Transformers for End-to-end Multi-resolution Training in Extreme Multi-label
    Classification},
  booktitle = {NeurIPS},
  year = {2022}
}""")
LIGHTXML = Paper(r"""@inproceedings{jiang2021lightxml,
  author = {Jiang, Ting and Wang, Deqing and Sun, Leilei and Yang, Huayi and Zhao, Zhengyang and Zhuang, Fuzhen},
  title = {{LightXML}: Transformer with Dynamic Negative Sampling for High-Performance Extreme Multi-label Text
    Classification},
  booktitle = {AAAI},
  year = {2021}
}""")
ELIAS = Paper(r"""@inproceedings{gupta2022elias,
  author = {Gupta, Nilesh and Chen, Patrick and Yu, Hsiang-Fu and Hsieh, Cho-Jui and Dhillon, Inderjit},
  title = {{ELIAS}: End-to-End Learning to Index and Search in Large Output Spaces},
  booktitle = {NeurIPS},
  year = {2022}
}""")
ATTENTIONXML = Paper(r"""@inproceedings{you2019attentionxml,
  author = {You, Ronghui and Zhang, Zihan and Wang, Ziye and Dai, Suyang and Mamitsuka, Hiroshi and Zhu, Shanfeng},
  title = {{AttentionXML}: Label Tree-based Attention-Aware Deep Model for High-Performance Extreme Multi-Label Text
    Classification},
  booktitle = {NeurIPS},
  year = {2019}
}""")
XR_TRANSFORMER = Paper(r"""@inproceedings{zhang2021xrtransformer,
  author = {Zhang, Jiong and Chang, Wei-Cheng and Yu, Hsiang-Fu and Dhillon, Inderjit},
  title = {Fast Multi-Resolution Transformer Fine-tuning for Extreme Multi-label Text Classification},
  booktitle = {NeurIPS},
  year = {2021}
}""")
MACH = Paper(r"""@inproceedings{medini2019extreme,
  author = {Medini, Tharun and Huang, Qixuan and Wang, Yiqiu and Mohan, Vijai and Shrivastava, Anshumali},
  title = {Extreme Classification in Log Memory using Count-Min Sketch: A Case Study of {Amazon} Search with 50M
    Products},
  booktitle = {NeurIPS},
  year = {2019}
}""")
MAXP = Paper(r"""@inproceedings{dai2019deeper,
  author = {Dai, Zhuyun and Callan, Jamie},
  title = {Deeper Text Understanding for {IR} with Contextual Neural Language Modeling},
  booktitle = {SIGIR},
  year = {2019}
}""")
MINILM = Paper(r"""@inproceedings{wang2020minilm,
  author = {Wang, Wenhui and Wei, Furu and Dong, Li and Bao, Hangbo and Yang, Nan and Zhou, Ming},
  title = {{MiniLM}: Deep Self-Attention Distillation for Task-Agnostic Compression of Pre-Trained Transformers},
  booktitle = {NeurIPS},
  year = {2020}
}""")
MIXUP = Paper(r"""@inproceedings{zhang2018mixup,
  author = {Zhang, Hongyi and Cisse, Moustapha and Dauphin, Yann N and Lopez-Paz, David},
  title = {mixup: Beyond Empirical Risk Minimization},
  booktitle = {ICLR},
  year = {2018}
}""")
MAUI = Paper(r"""@misc{medelyan2009maui,
  author = {Medelyan, Olena},
  title = {Human-competitive automatic topic indexing},
  howpublished = {University of Waikato},
  year = {2009}
}""")
NEAREST_MEMORY = Paper(r"""@inproceedings{khandelwal2020generalization,
  author = {Khandelwal, Urvashi and Levy, Omer and Jurafsky, Dan and Zettlemoyer, Luke and Lewis, Mike},
  title = {Generalization through Memorization: Nearest Neighbor Language Models},
  booktitle = {ICLR},
  year = {2020}
}""")
NGAME = Paper(r"""@inproceedings{dahiya2023ngame,
  author = {Dahiya, Kunal and Gupta, Nilesh and Saini, Deepak and Soni, Akshay and Wang, Yajun and Dave, Kushal and
            Jiao, Jian and Gururaj, K and Dey, Prasenjit and Singh, Amit and Hada, Deepesh and Jain, Vidit and
            Paliwal, Bhawna and Mittal, Anshul and Mehta, Sonu and Ramjee, Ramachandran and Agarwal, Sumeet and
            Kar, Purushottam and Varma, Manik},
  title = {{NGAME}: Negative Mining-aware Mini-batching for Extreme Classification},
  booktitle = {WSDM},
  year = {2023}
}""")
PARABEL = Paper(r"""@inproceedings{prabhu2018parabel,
  author = {Prabhu, Yashoteja and Kag, Anil and Harsola, Shrutendra and Agrawal, Rahul and Varma, Manik},
  title = {Parabel: Partitioned Label Trees for Extreme Classification with Application to Dynamic Search Advertising},
  booktitle = {WWW},
  year = {2018}
}""")
PFASTREXML = Paper(r"""@inproceedings{jain2016extreme,
  author = {Jain, Himanshu and Prabhu, Yashoteja and Varma, Manik},
  title = {Extreme Multi-label Loss Functions for Recommendation, Tagging, Ranking \& Other Missing Label
           Applications},
  booktitle = {KDD},
  year = {2016}
}""")
PLATT = Paper(r"""@incollection{platt1999probabilistic,
  author = {Platt, John},
  title = {Probabilistic Outputs for Support Vector Machines and Comparisons to Regularized Likelihood Methods},
  booktitle = {Advances in Large Margin Classifiers},
  year = {1999}
}""")
PROXML = Paper(r"""@article{babbar2019data,
  author = {Babbar, Rohit and Sch{\"o}lkopf, Bernhard},
  title = {Data scarcity, robustness and extreme multi-label classification},
  journal = {Machine Learning},
  volume = {108},
  year = {2019}
}""")
RANKNET_TAUG = Paper(r"""@misc{submission2020improving,
  title = {Improving Tail Label Prediction for Extreme Multi-label Learning},
  howpublished = {Blind submission to ICLR 2021, https://openreview.net/forum?id=hUAmiQCeUGm},
  year = {2020}
}""")
RENEE = Paper(r"""@inproceedings{jain2023renee,
  author = {Jain, Vidit and Prakash, Jatin and Saini, Deepak and Jiao, Jian and Ramjee, Ramachandran and Varma, Manik},
  title = {Ren{\'e}e: End-to-end Training of Extreme Classification Models},
  booktitle = {MLSys},
  year = {2023}
}""")
ROCCHIO = Paper(r"""@incollection{rocchio1971relevance,
  author = {Rocchio, Joseph John},
  title = {Relevance Feedback in Information Retrieval},
  booktitle = {The SMART Retrieval System: Experiments in Automatic Document Processing},
  editor = {Salton, Gerard},
  year = {1971}
}""")
SENTENCE_BERT = Paper(r"""@inproceedings{reimers2019sentence,
  author = {Reimers, Nils and Gurevych, Iryna},
  title = {{Sentence-BERT}: Sentence Embeddings using {Siamese BERT}-Networks},
  booktitle = {EMNLP-IJCNLP},
  year = {2019}
}""")
SIAMESEXML = Paper(r"""@inproceedings{dahiya2021siamesexml,
  author = {Dahiya, Kunal and Agarwal, Ananye and Saini, Deepak and Gururaj, K and Jiao, Jian and Singh, Amit and
            Agarwal, Sumeet and Kar, Purushottam and Varma, Manik},
  title = {{SiameseXML}: Siamese Networks meet Extreme Classifiers with 100M Labels},
  booktitle = {ICML},
  year = {2021}
}""")
STACKING = Paper(r"""@article{wolpert1992stacked,
  author = {Wolpert, David H.},
  title = {Stacked Generalization},
  journal = {Neural Networks},
  volume = {5},
  year = {1992}
}""")
UNIDEC = Paper(r"""@inproceedings{kharbanda2025unidec,
  author = {Kharbanda, Siddhant and Gupta, Devaansh and K, Gururaj and Malhotra, Pankaj and Singh, Amit and
            Hsieh, Cho-Jui and Babbar, Rohit},
  title = {{UniDEC}: Unified Dual Encoder and Classifier Training for Extreme Multi-Label Classification},
  booktitle = {WWW},
  year = {2025}
}""")
XREG = Paper(r"""@inproceedings{prabhu2020extreme,
  author = {Prabhu, Yashoteja and Kusupati, Aditya and Gupta, Nilesh and Varma, Manik},
  title = {Extreme Regression for Dynamic Search Advertising},
  booktitle = {WSDM},
  year = {2020}
}""")
