//! What the passes asked of the API server, from its audit log: whether the shipped rights suffice, and whether they are used.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::passes::{NAMESPACE, Passes};

const USER: &str = "system:serviceaccount:node-rotation-system:noderotation";
/// What every user may ask, and a pass does.
const BESIDES: [&str; 2] = ["/version", "/apis/karpenter.sh/v1"];

/// One request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    pub verb: String,
    pub group: String,
    /// With its subresource.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub path: String,
    pub code: u64,
    /// Whether RBAC refused it; admission (a quota, a policy) answers 403 too.
    pub beyond_rights: bool,
}

impl Request {
    /// Whether it wants to change something.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    fn of(event: &Value) -> Self {
        let target = &event["objectRef"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let resource = [text(&target["resource"]), text(&target["subresource"])];
        Self {
            verb: text(&event["verb"]),
            group: text(&target["apiGroup"]),
            resource: resource.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/"),
            namespace: text(&target["namespace"]),
            name: text(&target["name"]),
            path: text(&event["requestURI"]),
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
            beyond_rights: event["annotations"]["authorization.k8s.io/decision"] == "forbid",
        }
    }
}

/// A Role or ClusterRole, as shipped.
#[derive(Deserialize)]
struct Role {
    kind: String,
    metadata: Value,
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
    verbs: Vec<String>,
}

impl Role {
    fn allows(&self, request: &Request) -> bool {
        let here = self.kind == "ClusterRole" || self.metadata["namespace"] == request.namespace.as_str();
        let named = |rule: &Rule| rule.resource_names.is_empty() || rule.resource_names.contains(&request.name);
        let allows = |rule: &Rule| {
            rule.api_groups.contains(&request.group)
                && rule.resources.contains(&request.resource)
                && rule.verbs.contains(&request.verb)
                && named(rule)
        };
        here && self.rules.iter().any(allows)
    }
}

impl Passes {
    /// Every request of a pass so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        let log = std::fs::read_to_string(self.plane.audit_log()).unwrap();
        // The last line may be in the making.
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.filter(|event| event["user"]["username"] == USER).map(|event| Request::of(&event)).collect()
    }

    /// Every test ends with this: the shipped rights sufficed, and nothing was asked for beyond them.
    pub fn assert_rights_sufficed(&self) {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("kustomize/without-cronjob/rbac.yaml")).unwrap();
        let roles: Vec<Role> = serde_yaml_ng::Deserializer::from_str(&text).map(|document| Role::deserialize(document).unwrap()).collect();
        let requests = self.requests();
        assert!(requests.iter().any(|request| request.resource == "leases" && request.namespace == NAMESPACE), "no pass is in the log");
        let refused: Vec<&Request> = requests.iter().filter(|request| request.beyond_rights).collect();
        assert!(refused.is_empty(), "refused: {refused:#?}");
        let covered = |request: &Request| match request.resource.as_str() {
            "" => BESIDES.iter().any(|path| request.path == *path),
            _ => roles.iter().any(|role| role.allows(request)),
        };
        let beyond: Vec<&Request> = requests.iter().filter(|request| !covered(request)).collect();
        assert!(beyond.is_empty(), "beyond the shipped rights: {beyond:#?}");
    }
}
