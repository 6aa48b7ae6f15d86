use serde_json::json;

use super::*;
use crate::api::time::parse_annotation;
use crate::kube::{
    fake::{Fake, Fault, at, refuse},
    stop::Stop,
};

const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/noderotation";

/// A pass of this name whose clock is the server's.
async fn desk(fake: &Fake, identity: &str) -> Desk {
    let api = Api::new(fake.client(), Duration::from_secs(50), Stop::never());
    let desk = Desk { api, namespace: "ns".into(), identity: identity.into() };
    // Hears the time.
    desk.read().await.unwrap();
    desk
}

async fn take(fake: &Fake, identity: &str) -> Result<Standing, Held> {
    desk(fake, identity).await.take(&mut Watch::default()).await.unwrap()
}

/// What is stored, with times to the second: the clock's fractions are the test's own.
fn stored(fake: &Fake) -> Value {
    let mut spec = fake.get(PATH).unwrap()["spec"].clone();
    for key in ["acquireTime", "renewTime"] {
        let text = spec[key].as_str().unwrap().to_owned();
        assert_eq!(text.len(), "2026-11-30T07:00:00.000000Z".len(), "six digits");
        spec[key] = json!(text[..19]);
    }
    spec
}

fn clock(fake: &Fake, text: &str) {
    fake.store(|store| store.now = Some(at(text)));
}

#[tokio::test]
async fn the_first_pass_creates_it_and_the_second_is_told_who_holds_it() {
    let fake = Fake::new();
    take(&fake, "alice").await.unwrap();
    let expected = json!({
        "holderIdentity": "alice", "leaseDurationSeconds": 20, "leaseTransitions": 0,
        "acquireTime": "2026-11-30T07:00:00", "renewTime": "2026-11-30T07:00:00",
    });
    assert_eq!(stored(&fake), expected);
    clock(&fake, "2026-11-30T07:00:19Z");
    let held = take(&fake, "bob").await.unwrap_err();
    assert_eq!(held.to_string(), "the Lease is held by alice since 2026-11-30T07:00:00Z, until 2026-11-30T07:00:20Z unless renewed");
    assert_eq!(stored(&fake), expected);
}

#[tokio::test]
async fn an_expired_one_changes_hands_once() {
    let fake = Fake::new();
    take(&fake, "alice").await.unwrap();
    clock(&fake, "2026-11-30T07:00:21Z");
    let (bob, carol) = (desk(&fake, "bob").await, desk(&fake, "carol").await);
    let (mut first, mut second) = (Watch::default(), Watch::default());
    let (bob, carol) = futures::join!(bob.take(&mut first), carol.take(&mut second));
    let (bob, carol) = (bob.unwrap(), carol.unwrap());
    assert!(bob.is_ok() != carol.is_ok());
    let holder = if bob.is_ok() { "bob" } else { "carol" };
    let expected = json!({
        "holderIdentity": holder, "leaseDurationSeconds": 20, "leaseTransitions": 1,
        "acquireTime": "2026-11-30T07:00:21", "renewTime": "2026-11-30T07:00:21",
    });
    assert_eq!(stored(&fake), expected);
}

#[tokio::test]
async fn a_released_one_is_free_at_once() {
    let fake = Fake::new();
    let alice = desk(&fake, "alice").await;
    let lease = alice.clone().keep(alice.take(&mut Watch::default()).await.unwrap().unwrap());
    lease.release(None).await;
    let expected = json!({
        "holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 0,
        "acquireTime": "2026-11-30T07:00:00", "renewTime": "2026-11-30T07:00:00",
    });
    assert_eq!(stored(&fake), expected);
    take(&fake, "bob").await.unwrap();
    assert_eq!(stored(&fake)["leaseTransitions"], 1);
}

/// A command that is no pass leaves it as it was.
#[tokio::test]
async fn how_the_last_pass_ended_stands_on_it() {
    let fake = Fake::new();
    let failed =
        LastPass::new(parse_annotation("2026-11-30T07:00:00Z").unwrap(), 1, ["web".to_owned()].into_iter(), "errors: 1 in execute");
    for last in [Some(failed.clone()), None] {
        let alice = desk(&fake, "alice").await;
        alice.clone().keep(alice.take(&mut Watch::default()).await.unwrap().unwrap()).release(last).await;
        assert_eq!(Record::read(&fake.get(PATH).unwrap()).last.as_ref(), Some(&failed));
    }
}

#[tokio::test]
async fn taking_it_survives_a_lost_answer_and_a_rival() {
    let fake = Fake::new();
    fake.fault("POST", Fault::LoseAnswer);
    take(&fake, "alice").await.unwrap();
    assert_eq!(stored(&fake)["holderIdentity"], "alice");

    let fake = Fake::new();
    let rival = json!({"metadata": {}, "spec": {"holderIdentity": "bob", "renewTime": "2026-11-30T07:00:00.000000Z"}});
    fake.fault("POST", Fault::First(Box::new(|store| store.put(PATH, rival))));
    assert_eq!(take(&fake, "alice").await.unwrap_err().by, "bob");
}

#[tokio::test]
async fn a_refused_lease_names_it_and_the_servers_words() {
    let fake = Fake::new();
    let alice = desk(&fake, "alice").await;
    fake.fault("POST", refuse(404, "namespaces \"ns\" not found"));
    let failure = alice.take(&mut Watch::default()).await.unwrap_err();
    assert_eq!(failure.to_string(), "create Lease ns/noderotation: HTTP 404: namespaces \"ns\" not found");
}

async fn held(fake: &Fake) -> (Desk, Arc<Hold>) {
    let alice = desk(fake, "alice").await;
    let standing = alice.take(&mut Watch::default()).await.unwrap().unwrap();
    (alice, Arc::new(Hold(Mutex::new(standing))))
}

#[tokio::test]
async fn a_renewal_moves_the_write_guard() {
    let fake = Fake::new();
    let (alice, hold) = held(&fake).await;
    clock(&fake, "2026-11-30T07:00:05Z");
    alice.read().await.unwrap();
    assert!(alice.renew(&hold).await);
    assert_eq!(stored(&fake)["renewTime"], "2026-11-30T07:00:05");
    assert_eq!(stored(&fake)["acquireTime"], "2026-11-30T07:00:00");
    let lease = Lease { hold, end: oneshot::channel().0, renewing: tokio::spawn(async {}) };
    assert_eq!(lease.permits(at("2026-11-30T07:00:14Z")), Ok(()));
    assert_eq!(lease.permits(at("2026-11-30T07:00:16Z")).unwrap_err().split(':').next_back(), Some(" no renewal has been answered"));
}

#[tokio::test]
async fn a_conflict_with_our_own_stored_renewal_is_still_ours() {
    for fault in [Fault::Twice, Fault::LoseAnswer] {
        let fake = Fake::new();
        let (alice, hold) = held(&fake).await;
        clock(&fake, "2026-11-30T07:00:05Z");
        alice.read().await.unwrap();
        fake.fault("PATCH", fault);
        assert!(alice.renew(&hold).await);
        let standing = hold.standing();
        assert_eq!((standing.lost, standing.trouble), (None, None));
        assert!(standing.renewed >= at("2026-11-30T07:00:05Z"));
        assert!(alice.renew(&hold).await, "the version is the stored one");
    }
}

#[tokio::test]
async fn a_conflict_with_someone_elses_note_on_it_is_renewed_at_the_next_try() {
    let fake = Fake::new();
    let (alice, hold) = held(&fake).await;
    let touched = |store: &mut crate::kube::fake::Store| {
        let mut lease = store.objects[PATH].clone();
        lease["metadata"]["annotations"] = json!({"note": "x"});
        store.put(PATH, lease);
    };
    fake.fault("PATCH", Fault::First(Box::new(touched)));
    assert!(!alice.renew(&hold).await);
    assert_eq!(hold.standing().lost, None);
    assert!(alice.renew(&hold).await);
}

#[tokio::test]
async fn a_lease_that_another_holds_or_someone_deleted_is_lost() {
    let fake = Fake::new();
    let (alice, hold) = held(&fake).await;
    clock(&fake, "2026-11-30T07:00:30Z");
    take(&fake, "bob").await.unwrap();
    assert!(!alice.renew(&hold).await);
    assert_eq!(hold.standing().lost, Some("it is held by bob".into()));
    alice.give_back(&hold, None).await;
    assert_eq!(stored(&fake)["holderIdentity"], "bob", "it is not ours to give back");

    let fake = Fake::new();
    let (alice, hold) = held(&fake).await;
    fake.store(|store| store.objects.remove(PATH));
    assert!(!alice.renew(&hold).await);
    assert_eq!(hold.standing().lost, Some("it was deleted".into()));
}

#[tokio::test]
async fn a_waiting_pass_takes_it_as_soon_as_it_is_free() {
    let fake = Fake::new();
    let (alice, hold) = held(&fake).await;
    let bob = desk(&fake, "bob").await;
    let waiting = acquire(&bob.api, "ns", "bob", Duration::from_secs(10));
    let release = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        alice.give_back(&hold, None).await;
    };
    let (acquired, ()) = futures::join!(waiting, release);
    assert!(matches!(acquired, Ok(Acquisition::Ours(_))));
    assert!(matches!(acquire(&alice.api, "ns", "alice", Duration::ZERO).await, Ok(Acquisition::Held(held)) if held.by == "bob"));
}

/// Held by a holder whose clock is an hour ahead.
fn from_the_future(duration: i64) -> Value {
    json!({
        "metadata": {"namespace": "ns"},
        "spec": {"holderIdentity": "laptop", "renewTime": "2026-11-30T08:00:00.000000Z", "leaseDurationSeconds": duration},
    })
}

#[tokio::test]
async fn a_renewal_from_the_future_is_held_and_the_log_says_how_to_clear_it() {
    let fake = Fake::new().with(PATH, from_the_future(1));
    let held = take(&fake, "alice").await.unwrap_err().to_string();
    assert!(held.starts_with("the Lease is held by laptop, until 2026-11-30T08:00:01Z unless renewed; its renewal "), "{held}");
    assert!(held.ends_with("`kubectl delete lease noderotation --namespace ns`"), "{held}");
}

#[tokio::test]
async fn a_renewal_from_the_future_that_stands_still_for_its_duration_is_taken_by_who_waited() {
    let fake = Fake::new().with(PATH, from_the_future(1));
    let alice = desk(&fake, "alice").await;
    let began = Instant::now();
    assert!(matches!(acquire(&alice.api, "ns", "alice", Duration::from_millis(500)).await, Ok(Acquisition::Held(_))));
    assert!(matches!(acquire(&alice.api, "ns", "alice", Duration::from_secs(10)).await, Ok(Acquisition::Ours(_))));
    assert!(began.elapsed() >= Duration::from_millis(1500), "each run watches for itself");
    assert_eq!(stored(&fake)["holderIdentity"], "alice");
}

#[tokio::test]
async fn a_renewal_from_the_future_that_moves_stays_held() {
    let fake = Fake::new().with(PATH, from_the_future(2));
    let alice = desk(&fake, "alice").await;
    let renewing = async {
        for _ in 0..8 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            fake.store(|store| store.put(PATH, from_the_future(2)));
        }
    };
    let (acquired, ()) = futures::join!(acquire(&alice.api, "ns", "alice", Duration::from_secs(4)), renewing);
    assert!(matches!(acquired, Ok(Acquisition::Held(held)) if held.by == "laptop"));
}

#[tokio::test]
async fn what_others_wrote_on_it_stays() {
    let fake = Fake::new().with(
        PATH,
        json!({
            "metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}, "deletionTimestamp": "2026-11-30T06:00:00Z", "finalizers": ["x/y"]},
            "spec": {"holderIdentity": "", "strategy": "OldestEmulationVersion", "leaseTransitions": 7},
        }),
    );
    let alice = desk(&fake, "alice").await;
    let lease = alice.clone().keep(alice.take(&mut Watch::default()).await.unwrap().unwrap());
    lease.release(None).await;
    let left = fake.get(PATH).unwrap();
    assert_eq!((&left["metadata"]["labels"], &left["metadata"]["annotations"]), (&json!({"team": "a"}), &json!({"note": "x"})));
    assert_eq!((&left["spec"]["strategy"], &left["spec"]["leaseTransitions"]), (&json!("OldestEmulationVersion"), &json!(8)));
}
