//! The words of a fleet: NodePools of 8-cpu Nodes, Deployments that fill them, and the procedure that leaves each Node
//! partly filled.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The only instance type that pools here use: 8 cpu and 16 GiB, of which 7.9 cpu can be asked for.
pub const INSTANCE_TYPE: &str = "c-8x-amd64-linux";

/// How many Pods of 1 cpu fit on a Node of [`INSTANCE_TYPE`].
pub const PODS_PER_FULL_NODE: u32 = 7;

/// How many Pods of 1 cpu [`crate::ControlPlane::part_filled_fleet`] leaves on each Node.
pub const PODS_PER_PART_FILLED_NODE: u32 = 5;

/// A NodePool with a KWOKNodeClass of the same name. Nothing but expiry and its deletion ends a Node: consolidation is
/// off.
#[derive(Clone, Debug)]
pub struct Pool {
    name: String,
    labels: BTreeMap<String, String>,
    template: Value,
    spec: Map<String, Value>,
    registration_delay: Option<String>,
}

impl Pool {
    /// A pool of 8-cpu Nodes that never expire.
    pub fn new(name: &str) -> Pool {
        let requirements = json!([
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [INSTANCE_TYPE]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        ]);
        let template = json!({"metadata": {"labels": {}}, "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": name},
            "requirements": requirements,
            "expireAfter": "Never",
        }});
        let disruption = json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"});
        let spec = Map::from_iter([("disruption".to_owned(), disruption)]);
        Pool { name: name.into(), labels: BTreeMap::new(), template, spec, registration_delay: None }
    }

    /// A label of the NodePool object itself.
    pub fn label(mut self, key: &str, value: &str) -> Pool {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// A label of the pool's Nodes.
    pub fn node_label(mut self, key: &str, value: &str) -> Pool {
        self.template["metadata"]["labels"][key] = value.into();
        self
    }

    /// `spec.limits`, such as `json!({"cpu": "32", "nodes": 4})`. Karpenter makes no NodeClaim past a limit: capacity that
    /// never comes, without a NodeClaim. Changing limits later makes no Node drift.
    pub fn limits(mut self, limits: Value) -> Pool {
        self.spec.insert("limits".into(), limits);
        self
    }

    /// `expireAfter`, such as `720h` or `Never` (default).
    pub fn expire_after(mut self, duration: &str) -> Pool {
        self.template["spec"]["expireAfter"] = duration.into();
        self
    }

    /// `terminationGracePeriod` (default none). Karpenter ends Pods by force from here minus the Pod's own grace on, PDB or
    /// not: a test of PDBs uses 10 minutes at least, or none.
    pub fn termination_grace_period(mut self, duration: &str) -> Pool {
        self.template["spec"]["terminationGracePeriod"] = duration.into();
        self
    }

    /// A further requirement on Nodes, as in `spec.template.spec.requirements`. One that no instance type meets, such as
    /// `json!({"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["3"]})`, is capacity that never
    /// comes, without a NodeClaim. Added to a pool that has Nodes it makes them drift.
    pub fn requirement(mut self, requirement: Value) -> Pool {
        push(&mut self.template["spec"]["requirements"], requirement);
        self
    }

    /// A taint of the pool's Nodes, with the effect NoSchedule.
    pub fn taint(mut self, key: &str, value: &str) -> Pool {
        push(&mut self.template["spec"]["taints"], json!({"key": key, "value": value, "effect": "NoSchedule"}));
        self
    }

    /// `spec.replicas`: a static pool, which always has this many Nodes.
    pub fn replicas(mut self, count: u32) -> Pool {
        self.spec.insert("replicas".into(), count.into());
        self
    }

    /// Any other field of `spec`, such as `weight`, or `disruption` as a whole.
    pub fn spec(mut self, field: &str, value: Value) -> Pool {
        self.spec.insert(field.into(), value);
        self
    }

    /// A pool whose Nodes register and never become Ready: kwok leaves Nodes with this label alone. To stop only the Nodes
    /// that come later, see [`crate::ControlPlane::hold_new_nodes`].
    pub fn never_ready(self) -> Pool {
        self.node_label(crate::NEVER_READY_LABEL, "true")
    }

    /// How long a launched instance takes until its Node is there, in seconds, minutes or hours, such as `30s`. With `24h`
    /// a NodeClaim stays launched and never registers; Karpenter gives it up after 15 minutes. The provider reads it at each
    /// launch, so applying the pool again with another delay counts for the next Node, and makes no Node drift.
    pub fn registration_delay(mut self, duration: &str) -> Pool {
        self.registration_delay = Some(duration.into());
        self
    }

    /// The name of the pool.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The KWOKNodeClass and the NodePool.
    pub fn objects(&self) -> Vec<Value> {
        let class_spec = self.registration_delay.as_ref().map(|delay| json!({"nodeRegistrationDelay": delay}));
        let mut spec = self.spec.clone();
        spec.insert("template".into(), self.template.clone());
        vec![
            json!({
                "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
                "metadata": {"name": self.name}, "spec": class_spec.unwrap_or(json!({})),
            }),
            json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
                "metadata": {"name": self.name, "labels": self.labels}, "spec": spec,
            }),
        ]
    }
}

/// A Deployment whose Pods ask for 1 cpu each and run on one pool only, with a PodDisruptionBudget of
/// `maxUnavailable: 1`. It meets the Pod Security level `restricted`.
#[derive(Clone, Debug)]
pub struct Workload {
    name: String,
    namespace: String,
    pool: String,
    replicas: u32,
    cpu: String,
    max_unavailable: Option<u32>,
    pod_annotations: BTreeMap<String, String>,
    pod: Value,
}

impl Workload {
    /// A Deployment in the namespace `default`, with one replica.
    pub fn new(name: &str, pool: &str) -> Workload {
        let pod = json!({
            "nodeSelector": {"karpenter.sh/nodepool": pool},
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        });
        Workload {
            name: name.into(),
            namespace: "default".into(),
            pool: pool.into(),
            replicas: 1,
            cpu: "1".into(),
            max_unavailable: Some(1),
            pod_annotations: BTreeMap::new(),
            pod,
        }
    }

    /// Another namespace, which must exist.
    pub fn namespace(mut self, namespace: &str) -> Workload {
        self.namespace = namespace.into();
        self
    }

    /// How many Pods.
    pub fn replicas(mut self, count: u32) -> Workload {
        self.replicas = count;
        self
    }

    /// What each Pod asks for (default 1).
    pub fn cpu(mut self, quantity: &str) -> Workload {
        self.cpu = quantity.into();
        self
    }

    /// How many Pods the PodDisruptionBudget lets be away (default 1); zero blocks every drain.
    pub fn max_unavailable(mut self, count: u32) -> Workload {
        self.max_unavailable = Some(count);
        self
    }

    /// No PodDisruptionBudget.
    pub fn without_budget(mut self) -> Workload {
        self.max_unavailable = None;
        self
    }

    /// An annotation of the Pods, such as `karpenter.sh/do-not-disrupt`.
    pub fn pod_annotation(mut self, key: &str, value: &str) -> Workload {
        self.pod_annotations.insert(key.into(), value.into());
        self
    }

    /// A toleration for a taint of its pool. One for every taint would tolerate Karpenter's own `karpenter.sh/disrupted`
    /// too, and Karpenter doesn't drain Pods that do: it ends their Node under them.
    pub fn tolerates(mut self, key: &str) -> Workload {
        push(&mut self.pod["tolerations"], json!({"key": key, "operator": "Exists", "effect": "NoSchedule"}));
        self
    }

    /// Any other field of the Pods' `spec`, such as `affinity` or `terminationGracePeriodSeconds`.
    pub fn pod_spec(mut self, field: &str, value: Value) -> Workload {
        self.pod[field] = value;
        self
    }

    /// The name of the Deployment; its Pods have it as the label `app`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace of the Deployment.
    pub fn in_namespace(&self) -> &str {
        &self.namespace
    }

    /// The pool that the Pods run on.
    pub fn pool(&self) -> &str {
        &self.pool
    }

    /// How many Pods it has.
    pub fn replica_count(&self) -> u32 {
        self.replicas
    }

    /// The Deployment and its PodDisruptionBudget.
    pub fn objects(&self) -> Vec<Value> {
        let app = json!({"app": self.name});
        let metadata = json!({"name": self.name, "namespace": self.namespace});
        let mut pod = self.pod.clone();
        pod["containers"] = json!([{
            "name": "main",
            "image": "registry.invalid/pause", // kwok pulls nothing
            "resources": {"requests": {"cpu": self.cpu}},
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        }]);
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": app},
                "template": {"metadata": {"labels": app, "annotations": self.pod_annotations}, "spec": pod},
            },
        });
        let budget = self.max_unavailable.map(|count| {
            json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata,
                "spec": {"maxUnavailable": count, "selector": {"matchLabels": app}},
            })
        });
        budget.into_iter().chain([deployment]).collect()
    }
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}
