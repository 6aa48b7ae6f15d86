//! Starts a real Kubernetes control plane with Karpenter and KWOK on loopback.
