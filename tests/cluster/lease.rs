//! One pass at a time, in the whole cluster.

use std::{process::Output, time::Duration};

use control_plane::{Options, Pool, Workload};
use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    passes::{NAMESPACE, Pass, Passes},
    policy::policy,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_lets_one_pass_work_at_a_time_and_runs_out_after_a_kill() {
    let passes = Passes::start(Options { pod_ready_delay: Duration::ZERO, ..Options::default() }).await;
    let pool = Pool::new("web").label("rotate", "web");
    passes.plane.install(&pool).await.unwrap();
    passes.plane.deploy(&Workload::new("web", "web").cpu("5")).await.unwrap();
    passes.plane.apply_objects(&[policy("web")]).await.unwrap();

    someone_elses_hold_is_named_and_waited_for(&passes).await;
    many_at_once_start_one_rotation(&passes).await;
    the_hold_of_a_killed_pass_runs_out(&passes).await;
}

/// Someone on a laptop, whose process renews.
async fn someone_elses_hold_is_named_and_waited_for(passes: &Passes) {
    let leases: Api<Lease> = Api::namespaced(passes.plane.client(), NAMESPACE);
    let held = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "noderotation", "namespace": NAMESPACE},
        "spec": hold("laptop_1_0badcafe"),
    });
    leases.create(&PostParams::default(), &serde_json::from_value(held).unwrap()).await.unwrap();

    for patience in [&[][..], &["--wait-for-lease=2s"]] {
        let mut command = passes.command();
        command.args(patience);
        let pass = passes.finish(command).await;
        assert_eq!(pass.code, Some(0), "{}", pass.log);
        assert_eq!(holder(&pass).as_deref(), Some("laptop_1_0badcafe"), "{}", pass.log);
    }
    assert_eq!(passes.pool_annotation("web", "active-rotation").await, None);

    let mut patient = passes.command();
    patient.arg("--wait-for-lease=120s");
    let (waited, ()) = tokio::join!(passes.finish(patient), async {
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let renewed = Patch::Merge(json!({"spec": hold("laptop_1_0badcafe")}));
            leases.patch("noderotation", &PatchParams::default(), &renewed).await.unwrap();
        }
        assert_eq!(passes.pool_annotation("web", "active-rotation").await, None);
        let given_back = Patch::Merge(json!({"spec": {"holderIdentity": ""}}));
        leases.patch("noderotation", &PatchParams::default(), &given_back).await.unwrap();
    });
    assert_eq!((waited.code, holder(&waited)), (Some(0), None), "{}", waited.log);
    assert!(passes.pool_annotation("web", "active-rotation").await.is_some(), "{}", waited.log);
}

#[expect(clippy::disallowed_methods, reason = "as the process of someone else would")]
fn hold(by: &str) -> Value {
    let now = chrono::DateTime::<chrono::Utc>::from(std::time::SystemTime::now()).to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
    json!({"holderIdentity": by, "leaseDurationSeconds": 20, "acquireTime": now, "renewTime": now})
}

async fn many_at_once_start_one_rotation(passes: &Passes) {
    let before = passes.totals("web").await["success"].as_u64().unwrap_or_default();
    let (mut worked, mut refused) = (0, 0);
    while refused == 0 || passes.totals("web").await["success"].as_u64().unwrap_or_default() < before + 2 {
        let mut children = Vec::new();
        for _ in 0..4 {
            children.push(passes.command().spawn().unwrap());
        }
        let ids: Vec<u32> = children.iter().filter_map(tokio::process::Child::id).collect();
        let ended: Vec<Output> =
            join_all(children.into_iter().map(|child| child.wait_with_output())).await.into_iter().map(Result::unwrap).collect();
        for pass in ended.into_iter().map(Pass::of) {
            assert_eq!(pass.code, Some(0), "{}", pass.log);
            match holder(&pass) {
                None => worked += 1,
                Some(holder) => {
                    let id = holder.rsplit('_').nth(1).and_then(|id| id.parse().ok());
                    assert!(id.is_some_and(|id| ids.contains(&id)), "{holder} is none of {ids:?}");
                    refused += 1;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    println!("{worked} worked, {refused} found the Lease held");
    let (started, completed) = (passes.count("RotationStarted").await, passes.count("RotationCompleted").await);
    let success = usize::try_from(passes.totals("web").await["success"].as_u64().unwrap()).unwrap();
    assert_eq!(completed, success, "{:#?}", passes.events().await);
    assert!(started == success || started == success + 1, "{:#?}", passes.events().await);
}

async fn the_hold_of_a_killed_pass_runs_out(passes: &Passes) {
    // A pass with nothing to write doesn't die.
    let killed = loop {
        let mut command = passes.command();
        command.env("NODEROTATION_FAULT", "after-write:1");
        let child = command.spawn().unwrap();
        let id = child.id().unwrap();
        let pass = Pass::of(child.wait_with_output().await.unwrap());
        match pass.code {
            None => break id,
            code => assert_eq!(code, Some(0), "{}", pass.log),
        }
    };
    let before = passes.totals("web").await;
    let refused = passes.pass().await;
    assert_eq!(refused.code, Some(0), "{}", refused.log);
    assert!(holder(&refused).is_some_and(|holder| holder.contains(&format!("_{killed}_"))), "{}", refused.log);

    let mut patient = passes.command();
    patient.arg("--wait-for-lease=60s");
    let waited = passes.finish(patient).await;
    assert_eq!((waited.code, holder(&waited)), (Some(0), None), "{}", waited.log);
    let more = before["success"].as_u64().unwrap_or_default() + 1;
    passes
        .until("one more rotation has succeeded", Duration::from_secs(120), async |_| passes.totals("web").await["success"] == more)
        .await;
}

/// Who holds the Lease, as a pass says that did nothing.
fn holder(pass: &Pass) -> Option<String> {
    let (_, told) = pass.log.split_once("nothing is done by this run: the Lease is held by ")?;
    told.split_whitespace().next().map(|holder| holder.trim_end_matches(',').to_owned())
}
