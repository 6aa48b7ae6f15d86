//! Policies for tests, as YAML in the making.

use serde_json::{Value, json};

/// A RotationPolicy for the pools that carry the label `rotate: <name>`, always open, quick.
pub fn policy(name: &str) -> Value {
    json!({
        "apiVersion": "noderotation.io/v1alpha1",
        "kind": "RotationPolicy",
        "metadata": {"name": name},
        "spec": {
            "nodePoolSelector": {"matchLabels": {"rotate": name}},
            "maintenanceWindows": [{"timezone": "UTC", "days": ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"], "start": "00:00", "end": "24:00"}],
            "ageThreshold": "1s",
            "surge": {"readyTimeout": "3m", "cooldownAfter": "0s", "failurePause": "0s", "retryBackoff": "3m"},
        },
    })
}

/// The same with a field changed, by its path below `spec`; `null` removes it.
pub fn with(mut policy: Value, path: &str, value: Value) -> Value {
    let mut field = &mut policy["spec"];
    for key in path.split('.') {
        field = &mut field[key];
    }
    *field = value;
    policy
}
