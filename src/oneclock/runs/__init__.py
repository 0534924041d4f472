"""Studies on disk: the key and record of a run, its folder, the long table, L(beta), and which beta is best.

Training code writes these records, and analysis code reads them. Each of these things is defined only here. No torch.
"""
