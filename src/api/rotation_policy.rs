//! The RotationPolicy CRD (`noderotation.io/v1alpha1`), from whose types `crds/` is generated.
