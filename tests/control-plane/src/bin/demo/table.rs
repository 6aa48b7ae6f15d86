//! What there is of the pool, as a table for people.

use std::fmt;

use control_plane::{ControlPlane, Error, Workload, is_ready};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt, api::ListParams};

/// The NodeClaims of a pool, oldest first.
#[derive(Default)]
pub struct Table {
    rows: Vec<Row>,
}

struct Row {
    claim: String,
    created_s: i64,
    age_s: i64,
    node: String,
    pods: usize,
    pods_ready: usize,
    state: String,
}

impl Table {
    /// Reads it.
    pub async fn read(plane: &ControlPlane, workload: &Workload) -> Result<Table, Error> {
        let claims = plane.node_claims_of(workload.pool()).await?;
        let pods = plane.pods_of(workload).await?;
        let nodes = Api::<Node>::all(plane.client()).list(&ListParams::default()).await;
        let nodes = nodes.map_err(|error| Error::Unreadable { what: "the Nodes".into(), why: error.to_string() })?;
        let mut rows: Vec<Row> = claims
            .iter()
            .map(|claim| {
                let name = claim.data["status"]["nodeName"].as_str().unwrap_or_default();
                let node = nodes.items.iter().find(|node| node.name_any() == name);
                let here = || pods.iter().filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref() == Some(name)));
                let created_s = claim.creation_timestamp().map(|time| time.0.as_second()).unwrap_or_default();
                Row {
                    claim: claim.name_any(),
                    created_s,
                    age_s: now_s() - created_s,
                    node: node.map_or("-".into(), describe),
                    pods: here().count(),
                    pods_ready: here().filter(|pod| is_ready(pod)).count(),
                    state: state(claim.annotations().get("noderotation.io/state"), claim.metadata.deletion_timestamp.is_some()),
                }
            })
            .collect();
        rows.sort_by(|one, other| (one.created_s, &one.claim).cmp(&(other.created_s, &other.claim)));
        Ok(Table { rows })
    }

    /// How many Pods are Ready on all of them.
    pub fn pods_ready(&self) -> usize {
        self.rows.iter().map(|row| row.pods_ready).sum()
    }

    /// Whether it tells the same, but for the ages and Pods on their way.
    pub fn looks_like(&self, other: &Table) -> bool {
        let told =
            |table: &Table| -> Vec<String> { table.rows.iter().map(|row| format!("{} {} {}", row.claim, row.node, row.state)).collect() };
        told(self) == told(other)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "  {:<14} {:>5}  {:<22} {:>10}  STATE", "NODECLAIM", "AGE", "NODE", "PODS READY")?;
        for row in &self.rows {
            let pods = format!("{}/{}", row.pods_ready, row.pods);
            writeln!(formatter, "  {:<14} {:>4}s  {:<22} {pods:>10}  {}", row.claim, row.age_s, row.node, row.state)?;
        }
        Ok(())
    }
}

fn describe(node: &Node) -> String {
    let spec = node.spec.as_ref();
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let ready = conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let cordoned = spec.is_some_and(|spec| spec.unschedulable == Some(true));
    format!("{}{}", if ready { "Ready" } else { "NotReady" }, if cordoned { ", cordoned" } else { "" })
}

fn state(state: Option<&String>, deleting: bool) -> String {
    match (state.map(String::as_str), deleting) {
        (Some("pending"), _) => "its replacement is awaited".into(),
        (Some("draining"), true) => "drains".into(),
        (Some(state), _) => state.into(),
        (None, true) => "is being deleted".into(),
        (None, false) => String::new(),
    }
}

#[expect(clippy::disallowed_methods, reason = "ages for people to read")]
fn now_s() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
