//! Pools side by side, each with a policy of its name: how their surges are stalled, what is told of them, and what must
//! hold when a test ends.

use std::time::Duration;

use control_plane::{ControlPlane, Pool, Workload, has_condition};
use noderotation::api::time::{Time, parse_annotation};
use serde_json::{Value, json};

use crate::passes::{NAMESPACE, Pass, Passes, annotation, json};

/// Long enough for anything that is bound to happen, on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(400);

/// A pool that the policy of its name selects.
pub fn pool(name: &str) -> Pool {
    Pool::new(name).label("rotate", name).expire_after("720h").termination_grace_period("10m")
}

/// Part-filled Nodes, and then limits that have room for a placeholder of 5 cpu and none for the instance of 8 that it
/// needs: a surge is asked for and never comes.
pub async fn fill_and_stall(plane: &ControlPlane, pool: &Pool, nodes: u32, away: u32) -> Workload {
    let workload = fill(plane, pool, nodes, away).await;
    // What Karpenter counts: with KWOK, what the Node's first Pods asked for.
    let claims = plane.node_claims_of(pool.name()).await.unwrap();
    let used = claims.iter().map(|claim| claim.data["status"]["capacity"]["cpu"].as_str().unwrap().parse::<u32>().unwrap());
    let limits = json!({"cpu": (used.sum::<u32>() + 6).to_string()});
    plane.install(&pool.clone().limits(limits)).await.unwrap();
    workload
}

/// Part-filled Nodes, and a budget that lets this many Pods be away.
pub async fn fill(plane: &ControlPlane, pool: &Pool, nodes: u32, away: u32) -> Workload {
    let workload = Workload::new(pool.name(), pool.name()).max_unavailable(away);
    plane.part_fill(pool, workload, nodes).await.unwrap()
}

/// Changes a workload's budget.
pub async fn allow(plane: &ControlPlane, workload: &Workload, away: u32) {
    let budget = workload.clone().max_unavailable(away).objects().remove(0);
    plane.apply_objects(&[budget]).await.unwrap();
}

impl Passes {
    /// The claims of a pool, as JSON.
    pub async fn claims(&self, pool: &str) -> Vec<Value> {
        let claims = self.plane.node_claims_of(pool).await.unwrap();
        claims.into_iter().map(|claim| serde_json::to_value(claim).unwrap()).collect()
    }

    /// The only claim of a pool.
    pub async fn only_claim(&self, pool: &str) -> String {
        let claims = self.claims(pool).await;
        assert_eq!(claims.len(), 1, "{claims:#?}");
        name(&claims[0])
    }

    /// A claim; `None` once it is gone.
    pub async fn claim(&self, name: &str) -> Option<Value> {
        self.plane.node_claims().get_opt(name).await.unwrap().map(|claim| serde_json::to_value(claim).unwrap())
    }

    /// The claim of a pool that came beside the old one.
    pub async fn newcomer(&self, pool: &str, old: &str) -> Option<Value> {
        self.claims(pool).await.into_iter().find(|claim| name(claim) != old)
    }

    /// The state that a claim is in.
    pub async fn state(&self, claim: &str) -> Option<String> {
        annotation(&self.claim(claim).await?, "state")
    }

    /// The claim that a pool's anchor names.
    pub async fn anchor(&self, pool: &str) -> Option<String> {
        self.pool_annotation(pool, "active-rotation").await
    }

    /// All of a claim's Node that a rotation touches.
    pub async fn marks(&self, claim: &str) -> Value {
        let claim = json(&self.plane.node_claims(), claim).await;
        let node = self.get("node", claim["status"]["nodeName"].as_str().unwrap()).await;
        let meta = &node["metadata"];
        json!({"annotations": meta["annotations"], "labels": meta["labels"], "unschedulable": node["spec"]["unschedulable"]})
    }

    /// A cluster-scoped object.
    pub async fn get(&self, kind: &str, name: &str) -> Value {
        let text = self.plane.run_kubectl(&["get", kind, name, "--output=json"], "").await.unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// The condition `Ready` of a policy, without its times.
    pub async fn verdict(&self, policy: &str) -> (String, String, String) {
        let policy = self.get("rotationpolicy", policy).await;
        let ready = policy["status"]["conditions"].as_array().and_then(|all| all.iter().find(|one| one["type"] == "Ready")).cloned();
        let text = |key: &str| ready.as_ref().and_then(|ready| ready[key].as_str()).unwrap_or_default().to_owned();
        (text("status"), text("reason"), text("message"))
    }

    /// What was told with this reason about this object, oldest first.
    pub async fn told(&self, reason: &str, about: &str) -> Vec<String> {
        let told = self.events().await.into_iter();
        told.filter(|(told, note)| told == reason && note.contains(about)).map(|(_, note)| note).collect()
    }

    /// Deletes a claim as someone else would.
    pub async fn delete_claim(&self, claim: &str) {
        self.plane.run_kubectl(&["delete", "nodeclaim", claim, "--wait=false"], "").await.unwrap();
    }

    /// Runs passes until each of these pools counts what it should.
    pub async fn until_totals(&self, expected: &[(&str, Value)]) -> Vec<Pass> {
        let what = format!("the totals are {expected:?}");
        self.until(&what, LIMIT, async |_| {
            for (pool, expected) in expected {
                if self.outcomes(pool).await != *expected {
                    return false;
                }
            }
            true
        })
        .await
    }

    /// The counters of a pool that are not 0.
    pub async fn outcomes(&self, pool: &str) -> Value {
        let totals = self.totals(pool).await;
        let counters = totals.as_object().into_iter().flatten().filter(|(_, count)| count.as_u64().is_some_and(|count| count > 0));
        counters.map(|(name, count)| (name.clone(), count.clone())).collect()
    }

    /// Some passes that change nothing; each must end well.
    pub async fn idle(&self, count: usize) -> Vec<Pass> {
        let mut passes = Vec::new();
        for _ in 0..count {
            let pass = self.pass().await;
            assert_eq!(pass.code, Some(0), "{}", pass.log);
            passes.push(pass);
        }
        passes
    }

    /// The end of every test: nothing of ours is left but the totals and the stamps of the pauses, nothing was refused by
    /// RBAC, and the totals are what happened.
    pub async fn assert_settled(&self, expected: &[(&str, Value)]) {
        let mut left = self.leftovers().await;
        left.retain(|key| !key.ends_with(": noderotation.io/last-failure-at"));
        assert_eq!(left, [""; 0]);
        for (pool, expected) in expected {
            assert_eq!(self.outcomes(pool).await, *expected, "{pool}");
        }
        assert_eq!(self.placeholders().await, [""; 0]);
    }

    /// The names of the Pods in the program's namespace.
    pub async fn placeholders(&self) -> Vec<String> {
        let text = self.plane.run_kubectl(&["get", "pods", "-n", NAMESPACE, "-o", "name"], "").await.unwrap();
        text.lines().map(|line| line.trim_start_matches("pod/").to_owned()).collect()
    }

    /// The API server's clock.
    pub async fn server_time(&self) -> Time {
        let review = self.plane.run_kubectl(&["create", "token", "noderotation", "-n", NAMESPACE, "-o", "json"], "").await.unwrap();
        let review: Value = serde_json::from_str(&review).unwrap();
        parse_annotation(review["metadata"]["creationTimestamp"].as_str().unwrap()).unwrap()
    }

    /// Every write of the program, oldest first, as `verb resource name`; reads and rehearsals are left out.
    pub fn writes(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.plane.audit_log()).unwrap();
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let ours = events.filter(|event| event["user"]["username"] == format!("system:serviceaccount:{NAMESPACE}:noderotation"));
        // That a delete is rehearsed stands in its body.
        let rehearsed = |event: &Value| {
            event["requestURI"].as_str().is_some_and(|uri| uri.contains("dryRun")) || event["requestObject"]["dryRun"].is_array()
        };
        let writes = ours.filter(|event| !rehearsed(event) && !matches!(event["verb"].as_str(), Some("get" | "list")));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        writes.map(|event| [&event["verb"], &event["objectRef"]["resource"], &event["objectRef"]["name"]].map(text).join(" ")).collect()
    }

    /// The verbs of the program's writes on one object, oldest first.
    pub fn writes_on(&self, resource: &str, name: &str) -> Vec<String> {
        let of_object = format!(" {resource} {name}");
        self.writes().iter().filter_map(|write| write.strip_suffix(&of_object)).map(str::to_owned).collect()
    }
}

/// The name of an object.
pub fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

/// Whether somebody has deleted the object.
pub fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Whether a claim's condition is true.
pub fn is(claim: &Value, condition: &str) -> bool {
    has_condition(claim, condition)
}

/// What passes logged about a pool.
pub fn said(passes: &[Pass], pool: &str) -> Vec<String> {
    let of_pool = format!("nodepool=\"{pool}\"");
    passes.iter().flat_map(|pass| pass.log.lines()).filter(|line| line.contains(&of_pool)).map(str::to_owned).collect()
}
