//! What the door serves, and by which fields its objects can be selected.

/// A resource.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// Empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub kind: &'static str,
    pub namespaced: bool,
    /// By a CustomResourceDefinition.
    pub custom: bool,
    /// Whether the status has a path of its own.
    pub has_status: bool,
    /// Whether changes of the spec are counted.
    pub has_generation: bool,
    /// Field labels beside `metadata.name` and `metadata.namespace`, and where their values are.
    pub fields: &'static [(&'static str, &'static str)],
}

const CORE: Kind = Kind {
    group: "",
    version: "v1",
    plural: "",
    kind: "",
    namespaced: true,
    custom: false,
    has_status: false,
    has_generation: false,
    fields: &[],
};

const CUSTOM: Kind = Kind { namespaced: false, custom: true, has_status: true, has_generation: true, ..CORE };

const APPS: Kind = Kind { group: "apps", has_status: true, has_generation: true, ..CORE };

/// Events as `events.k8s.io/v1` has them; the older API shows the same objects.
pub(super) const EVENTS: &Kind = &KINDS[0];
/// Events as the core group has them.
pub(super) const CORE_EVENTS: &Kind = &KINDS[1];
/// Pods.
pub(super) const PODS: &Kind = &KINDS[2];
/// Nodes.
pub(super) const NODES: &Kind = &KINDS[3];
/// NodePools.
pub(super) const NODEPOOLS: &Kind = &KINDS[4];
/// NodeClaims.
pub(super) const NODECLAIMS: &Kind = &KINDS[5];
/// Our policies.
pub(super) const POLICIES: &Kind = &KINDS[6];
/// PodDisruptionBudgets.
pub(super) const BUDGETS: &Kind = &KINDS[7];

/// ResourceQuotas.
pub(super) const QUOTAS: &Kind = &KINDS[8];

/// Deployments.
pub(super) const DEPLOYMENTS: &Kind = &KINDS[9];
/// ReplicaSets.
pub(super) const REPLICASETS: &Kind = &KINDS[10];
/// StatefulSets.
pub(super) const STATEFULSETS: &Kind = &KINDS[11];

/// PersistentVolumeClaims.
pub(super) const VOLUME_CLAIMS: &Kind = &KINDS[12];
/// PersistentVolumes.
pub(super) const VOLUMES: &Kind = &KINDS[13];
/// LimitRanges.
pub(super) const LIMITS: &Kind = &KINDS[14];

/// All of them.
pub(super) static KINDS: [Kind; 17] = [
    Kind {
        group: "events.k8s.io",
        plural: "events",
        kind: "Event",
        fields: &[
            ("regarding.kind", "/regarding/kind"),
            ("regarding.namespace", "/regarding/namespace"),
            ("regarding.name", "/regarding/name"),
            ("regarding.uid", "/regarding/uid"),
            ("reason", "/reason"),
            ("reportingController", "/reportingController"),
            ("type", "/type"),
        ],
        ..CORE
    },
    Kind {
        plural: "events",
        kind: "Event",
        fields: &[
            ("involvedObject.kind", "/involvedObject/kind"),
            ("involvedObject.namespace", "/involvedObject/namespace"),
            ("involvedObject.name", "/involvedObject/name"),
            ("involvedObject.uid", "/involvedObject/uid"),
            ("reason", "/reason"),
            ("reportingComponent", "/reportingComponent"),
            ("type", "/type"),
        ],
        ..CORE
    },
    Kind {
        plural: "pods",
        kind: "Pod",
        has_status: true,
        has_generation: true,
        fields: &[
            ("spec.nodeName", "/spec/nodeName"),
            ("spec.restartPolicy", "/spec/restartPolicy"),
            ("spec.schedulerName", "/spec/schedulerName"),
            ("status.phase", "/status/phase"),
        ],
        ..CORE
    },
    Kind {
        plural: "nodes",
        kind: "Node",
        namespaced: false,
        has_status: true,
        fields: &[("spec.unschedulable", "/spec/unschedulable")],
        ..CORE
    },
    Kind { group: "karpenter.sh", plural: "nodepools", kind: "NodePool", ..CUSTOM },
    Kind { group: "karpenter.sh", plural: "nodeclaims", kind: "NodeClaim", ..CUSTOM },
    Kind { group: "noderotation.io", version: "v1alpha1", plural: "rotationpolicies", kind: "RotationPolicy", ..CUSTOM },
    Kind { group: "policy", plural: "poddisruptionbudgets", kind: "PodDisruptionBudget", has_status: true, has_generation: true, ..CORE },
    Kind { plural: "resourcequotas", kind: "ResourceQuota", has_status: true, ..CORE },
    Kind { plural: "deployments", kind: "Deployment", ..APPS },
    Kind { plural: "replicasets", kind: "ReplicaSet", ..APPS },
    Kind { plural: "statefulsets", kind: "StatefulSet", ..APPS },
    Kind { plural: "persistentvolumeclaims", kind: "PersistentVolumeClaim", has_status: true, ..CORE },
    Kind { plural: "persistentvolumes", kind: "PersistentVolume", namespaced: false, has_status: true, ..CORE },
    Kind { plural: "limitranges", kind: "LimitRange", ..CORE },
    Kind { group: "coordination.k8s.io", plural: "leases", kind: "Lease", ..CORE },
    Kind { plural: "configmaps", kind: "ConfigMap", ..CORE },
];

impl Kind {
    /// The resource of this path, where it is served.
    pub fn served(group: &str, version: &str, plural: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| (kind.group, kind.version, kind.plural) == (group, version, plural))
    }

    /// As it stands in objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.into() } else { format!("{}/{}", self.group, self.version) }
    }

    /// As the API server names it in its words: `pods`, `nodepools.karpenter.sh`.
    pub fn words(&self) -> String {
        if self.group.is_empty() { self.plural.into() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// The same by its kind: `Pod`, `NodePool.karpenter.sh`.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.kind.into() } else { format!("{}.{}", self.kind, self.group) }
    }

    /// Where the value of a field label is; `None` for one that can't be selected by.
    pub fn pointer(&self, label: &str) -> Option<&'static str> {
        match label {
            "metadata.name" => Some("/metadata/name"),
            "metadata.namespace" => Some("/metadata/namespace"),
            _ => self.fields.iter().find(|(known, _)| *known == label).map(|(_, pointer)| *pointer),
        }
    }
}

/// One object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// The resource, as [`Kind::words`] has it.
    pub resource: String,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    pub name: String,
}

impl Key {
    /// The key of an object of this kind.
    pub fn of(kind: &Kind, namespace: &str, name: &str) -> Self {
        Self { resource: kind.words(), namespace: namespace.into(), name: name.into() }
    }

    /// Whether it is of this kind.
    pub fn is(&self, kind: &Kind) -> bool {
        self.resource == kind.words()
    }
}
