//! The program on a real control plane: etcd, the API server, Karpenter with its KWOK provider. Each pass is a process of
//! its own, under the ServiceAccount and with the rights that `kustomize/base` gives it.

mod passes;
mod policy;
mod rotation;
