use super::*;
use crate::kube::{
    fake::{Fake, Fault, refuse},
    session::Session,
};

async fn open(fake: &Fake) -> Result<(), String> {
    Session::open(fake.client(), fake.terms()).await.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_cluster_that_serves_everything_passes_with_one_short_list_each() {
    let fake = Fake::new();
    assert_eq!(open(&fake).await, Ok(()));
    assert_eq!(fake.log(), NEEDED.map(|(path, ..)| format!("GET {path}?&limit=1")));
}

#[tokio::test]
async fn a_missing_crd_a_missing_verb_and_bad_credentials_are_named_with_the_servers_words() {
    let cases = [
        (
            Fault::Answer(404, "404 page not found".into()),
            "the API server does not serve nodepools.karpenter.sh/v1: is Karpenter v1 installed? (it says: \"404 page not found\")",
        ),
        (
            refuse(403, "nodepools is forbidden"),
            "the verb `list` on nodepools.karpenter.sh/v1 is not allowed (the API server says: nodepools is forbidden)",
        ),
        (refuse(401, "Unauthorized"), "the API server does not accept the credentials (it says: Unauthorized)"),
        (refuse(406, "odd"), "list nodepools.karpenter.sh/v1: HTTP 406: odd"),
    ];
    for (fault, words) in cases {
        let fake = Fake::new();
        fake.fault("GET", fault);
        assert_eq!(open(&fake).await, Err(words.into()));
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_told_with_the_cause() {
    let fake = Fake::new();
    for _ in 0..6 {
        fake.fault("GET", Fault::LoseRequest);
    }
    assert_eq!(open(&fake).await, Err("list nodepools.karpenter.sh/v1: connection refused".into()));
}

#[tokio::test]
async fn a_server_without_a_date_leaves_the_local_clock() {
    let fake = Fake::new();
    fake.store(|store| store.now = None);
    let session = Session::open(fake.client(), fake.terms()).await.unwrap();
    assert!(!session.api().clock.is_of_server());
    let session = Session::open(Fake::new().client(), fake.terms()).await.unwrap();
    assert!(session.api().clock.is_of_server());
}
