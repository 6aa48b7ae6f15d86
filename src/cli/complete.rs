//! What the shell offers for an argument: names from the cluster that the kubeconfig names. Quick, quiet, and nothing where
//! the cluster doesn't answer.

use std::{path::PathBuf, time::Duration};

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use super::only::Only;
use crate::{
    api::keys::DEFAULT_NAMESPACE,
    cluster::Cluster,
    kube::{
        connect::{Target, connect},
        session::{Session, Terms},
        stop::Stop,
    },
    view::View,
};

/// Longer than this nobody waits for a key press.
const PATIENCE: Duration = Duration::from_secs(2);

/// NodePools.
pub fn pools() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &std::ffi::OsStr| {
        offer(typed, |view| {
            let policy = |labels| match crate::policy::resolve::governance(&view.policies, labels) {
                crate::policy::resolve::Governance::Policy(policy) => format!("policy {}", policy.name),
                crate::policy::resolve::Governance::Conflict(_) => "policies in conflict".into(),
                crate::policy::resolve::Governance::Ungoverned => "no policy".into(),
            };
            view.pools.values().map(|pool| (pool.metadata.name.clone(), policy(&pool.metadata.labels))).collect()
        })
    })
}

/// RotationPolicies.
pub fn policies() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &std::ffi::OsStr| {
        offer(typed, |view| {
            let pools = |policy| {
                let governed = view.pools.keys().filter(|pool| Only::Policy(policy).takes(view, pool)).cloned().collect::<Vec<_>>();
                if governed.is_empty() { "no pool".into() } else { format!("pools {}", governed.join(", ")) }
            };
            view.policies.keys().map(|policy| (policy.clone(), pools(policy.as_str()))).collect()
        })
    })
}

/// NodeClaims and their Nodes.
pub fn claims() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &std::ffi::OsStr| {
        offer(typed, |view| {
            let of = |claim: &crate::api::karpenter::NodeClaim| claim.pool().unwrap_or_default().to_owned();
            let claims = view.claims.values().map(|claim| (claim.metadata.name.clone(), of(claim)));
            let nodes = view.claims.values().filter_map(|claim| Some((claim.node()?.to_owned(), of(claim))));
            claims.chain(nodes).collect()
        })
    })
}

fn offer(typed: &std::ffi::OsStr, names: impl Fn(&View) -> Vec<(String, String)>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let names = look().map(|view| names(&view)).unwrap_or_default();
    let fitting = names.into_iter().filter(|(name, _)| name.starts_with(&*typed));
    fitting.map(|(name, about)| CompletionCandidate::new(name).help(Some(about.into()))).collect()
}

fn look() -> Option<View> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async {
        tokio::time::timeout(PATIENCE, async {
            let target =
                Target { kubeconfig: typed("--kubeconfig").map(PathBuf::from), context: typed("--context"), impersonate: typed("--as") };
            let client = connect(&target).await.ok()?;
            let (_, stop) = Stop::by_hand();
            let namespace = typed("--namespace").or_else(|| typed("-n")).unwrap_or_else(|| DEFAULT_NAMESPACE.into());
            let terms = Terms { namespace, deadline: PATIENCE, request_timeout: Some(PATIENCE), stop };
            Session::open(client, terms).await.ok()?.load().await.ok()
        })
        .await
        .ok()
        .flatten()
    })
}

/// The value of a flag on the line that is being completed.
fn typed(flag: &str) -> Option<String> {
    let words: Vec<String> = std::env::args().collect();
    let after = words.iter().position(|word| word == flag).and_then(|index| words.get(index + 1)).cloned();
    after.or_else(|| words.iter().find_map(|word| word.strip_prefix(flag)?.strip_prefix('=').map(str::to_owned)))
}
