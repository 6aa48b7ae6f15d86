//! Make-before-break rotation of Karpenter nodes inside maintenance windows.
