use super::*;

const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crds/noderotation.io_rotationpolicies.yaml");

#[test]
fn the_committed_crd_is_that_of_the_types() {
    let generated = crd_yaml().unwrap();
    if std::env::var_os("UPDATE_CRD").is_some() {
        std::fs::write(COMMITTED, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(COMMITTED).unwrap_or_default();
    assert!(
        committed == generated,
        "{COMMITTED} is not what the types say: write it anew with `UPDATE_CRD=1 cargo test --lib committed_crd`"
    );
}
