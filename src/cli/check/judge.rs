//! Judges the documents of all files together: policies by the reader that passes use, NodePools by the same resolution,
//! derivation and findings.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;

use super::{
    diagnostic::{Diagnostic, Severity},
    envelope,
    yaml::{self, Node, Place},
};
use crate::{
    api::{json, karpenter::NodePool, time::Time},
    policy::{
        Policy, read,
        resolve::{Governance, governance},
    },
    schedule::{
        derive::{Derivation, Lifetime},
        findings::{Code, Finding, Level, blackout_cuts_lives, findings},
        window::Schedule,
    },
};

/// A file's name, as it was given, and its text.
#[derive(Debug, Clone)]
pub struct File {
    /// `-` for standard input.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// What the judgement rests on besides the files.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// Windows are looked at around this instant.
    pub now: Time,
    /// The time between passes.
    pub cadence: TimeDelta,
    /// The number of nodes of each pool.
    pub nodes: usize,
    /// A lifetime to judge every policy against.
    pub lifetime: Option<Lifetime>,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// Everything that is to be said, by file and place.
    pub diagnostics: Vec<Diagnostic>,
    /// The policies that were read, in the order of the files.
    pub policies: Vec<Judged>,
    /// The pools that are governed, and the lifetimes that were asked about.
    pub pools: Vec<OnPool>,
}

/// A policy and what its windows mean.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The policy.
    pub policy: Policy,
    /// Its windows.
    pub schedule: Schedule,
    file: String,
    node: Node,
}

/// A policy on a pool.
#[derive(Debug, Clone)]
pub struct OnPool {
    /// The NodePool's name; `None` for the lifetime of the command line.
    pub pool: Option<String>,
    /// The policy's name.
    pub policy: String,
    /// What follows.
    pub derivation: Derivation,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

struct Pool {
    pool: NodePool,
    file: String,
    node: Node,
}

/// Judges the files.
pub fn judge(files: &[File], terms: &Terms) -> Verdict {
    let (mut verdict, mut pools) = (Verdict::default(), Vec::new());
    for file in files {
        let (documents, fault) = yaml::documents(&file.text);
        for document in documents {
            take(&file.name, document, terms, &mut verdict, &mut pools);
        }
        if let Some(yaml::Fault { at, why }) = fault {
            verdict.diagnostics.push(Diagnostic::new(Severity::Error, "InvalidYaml", (&file.name, at), "", "", why));
        }
    }
    if verdict.policies.is_empty() && verdict.diagnostics.is_empty() {
        let file = files.first().map_or("-", |file| file.name.as_str());
        let message = "there is no RotationPolicy in what was given".to_owned();
        let at = (file, Place { line: 1, column: 1 });
        verdict.diagnostics.push(Diagnostic::new(Severity::Note, "NoPolicy", at, "", "", message));
    }
    twice(&mut verdict);
    alone(&mut verdict, terms);
    together(&mut verdict, &pools, terms);
    verdict.diagnostics.sort();
    verdict.diagnostics.dedup();
    verdict
}

/// Sorts one document in; lists, as `kubectl get -o yaml` prints them, are taken apart. Other kinds are none of ours.
fn take(file: &str, node: Node, terms: &Terms, verdict: &mut Verdict, pools: &mut Vec<Pool>) {
    let (version, kind) = (node.text("apiVersion").unwrap_or_default(), node.text("kind").unwrap_or_default());
    let group = version.split_once('/').map_or("", |(group, _)| group);
    if let (true, Some(Node { content: yaml::Content::List(items), .. })) = (kind.ends_with("List"), node.field("items")) {
        for item in items.clone() {
            take(file, item, terms, verdict, pools);
        }
    } else if kind == envelope::KIND && ["noderotation.io", ""].contains(&group) {
        policy(file, node, terms, verdict);
    } else if group == "noderotation.io" {
        let message = format!("{kind:?} is no kind of noderotation.io: {}", envelope::KIND);
        verdict.diagnostics.push(Diagnostic::new(Severity::Error, "UnknownKind", (file, node.locate("kind")), "", "kind", message));
    } else if kind == "NodePool" && group == "karpenter.sh" {
        match json::from_value::<NodePool>(&node.json()) {
            Ok(pool) => pools.push(Pool { pool, file: file.into(), node }),
            Err(error) => {
                let path = error.path.to_string();
                let object = format!("NodePool {}", node.field("metadata").and_then(|meta| meta.text("name")).unwrap_or_default());
                let at = (file, node.locate(&path));
                let message = format!("can't be read: {}", error.why);
                verdict.diagnostics.push(Diagnostic::new(Severity::Error, "InvalidField", at, &object, &path, message));
            }
        }
    }
}

fn policy(file: &str, node: Node, terms: &Terms, verdict: &mut Verdict) {
    let object = node.json();
    let policy = read::policy(&object);
    let about = about(&policy);
    for problem in envelope::problems(&object).iter().chain(&policy.problems) {
        let text = problem.to_string();
        // The path has a place of its own in a diagnostic.
        let message = text.strip_prefix(&format!("{}: ", problem.path)).unwrap_or(&text).to_owned();
        let at = (file, node.locate(&problem.path));
        verdict.diagnostics.push(Diagnostic::new(Severity::Error, "InvalidField", at, &about, &problem.path, message));
    }
    let schedule = Schedule::under(&policy.settings, terms.now);
    verdict.policies.push(Judged { policy, schedule, file: file.into(), node });
}

fn about(policy: &Policy) -> String {
    format!("{} {}", envelope::KIND, policy.name)
}

/// One name, one policy: the later document would replace the earlier one.
fn twice(verdict: &mut Verdict) {
    let mut seen: BTreeMap<&str, (&str, Place)> = BTreeMap::new();
    let mut told = Vec::new();
    for Judged { policy, file, node, .. } in &verdict.policies {
        let at = node.locate("metadata.name");
        match seen.get(policy.name.as_str()) {
            Some((first, place)) => {
                let message = format!("{first}:{} has a policy of this name already: this one would replace it", place.line);
                told.push(Diagnostic::new(Severity::Error, "DuplicateName", (file, at), &about(policy), "metadata.name", message));
            }
            None => drop(seen.insert(&policy.name, (file, at))),
        }
    }
    verdict.diagnostics.extend(told);
}

/// Findings that need no pool, and each policy against the lifetime that was asked about.
fn alone(verdict: &mut Verdict, terms: &Terms) {
    let (mut told, mut pools) = (Vec::new(), Vec::new());
    for judged in verdict.policies.iter().filter(|judged| judged.policy.is_valid()) {
        let pool = NodePool::default();
        let lifetime = terms.lifetime.unwrap_or(Lifetime { expire_after: None, grace: None });
        let derivation = Derivation::of(&judged.policy.settings, &judged.schedule, lifetime, terms.cadence);
        let mut found = found(&judged.policy, &judged.schedule, &pool, &derivation, terms);
        // What the template of a pool says was said on the command line, or is not known.
        found.retain(|finding| match finding.code {
            Code::TGPUnset => terms.lifetime.is_some_and(|lifetime| lifetime.grace.is_none()),
            _ => terms.lifetime.is_some() || needs_no_pool(finding.code),
        });
        told.extend(found.iter().map(|finding| tell(judged, None, finding)));
        if terms.lifetime.is_some() {
            pools.push(OnPool { pool: None, policy: judged.policy.name.clone(), derivation, findings: found });
        }
    }
    verdict.diagnostics.extend(told);
    verdict.pools.extend(pools);
}

/// All findings that need no claim.
fn found(policy: &Policy, schedule: &Schedule, pool: &NodePool, derivation: &Derivation, terms: &Terms) -> Vec<Finding> {
    let k = policy.settings.min_rotation_chances;
    let mut found = findings(policy, schedule, pool, terms.nodes, derivation);
    found.extend(blackout_cuts_lives(schedule, k, terms.now, terms.cadence, derivation));
    found
}

/// Whether it follows from the policy alone.
fn needs_no_pool(code: Code) -> bool {
    use Code::{
        KBelowOne, KBelowTwo, NoWindows, OverrideNonPositive, ProvisioningEstimateAboveReadyTimeout, RetryBackoffShort, ZoneNotRequired,
    };
    let codes =
        [KBelowOne, KBelowTwo, NoWindows, OverrideNonPositive, ProvisioningEstimateAboveReadyTimeout, RetryBackoffShort, ZoneNotRequired];
    codes.contains(&code)
}

/// Which policy governs which pool, and what follows.
fn together(verdict: &mut Verdict, pools: &[Pool], terms: &Terms) {
    let by_name: BTreeMap<String, Policy> =
        verdict.policies.iter().map(|judged| (judged.policy.name.clone(), judged.policy.clone())).collect();
    let (mut told, mut governed, mut tied_names) = (Vec::new(), Vec::new(), BTreeSet::new());
    for Pool { pool, file, node } in pools {
        let name = &pool.metadata.name;
        let object = format!("NodePool {name}");
        let at = (file.as_str(), node.locate("metadata.name"));
        match governance(&by_name, &pool.metadata.labels) {
            Governance::Ungoverned => {
                let message = "no policy in these files selects it: it is not rotated".to_owned();
                told.push(Diagnostic::new(Severity::Note, "Ungoverned", at, &object, "metadata.labels", message));
            }
            Governance::Conflict(tied) => {
                let names: Vec<&str> = tied.iter().map(|policy| policy.name.as_str()).collect();
                tied_names.extend(tied.iter().map(|policy| policy.name.clone()));
                let advice = "give one of them another constraint in nodePoolSelector, or nothing starts on this pool";
                let message = format!("the policies {} match with equal specificity: {advice}", names.join(", "));
                told.push(Diagnostic::new(Severity::Error, "PolicyConflict", at, &object, "metadata.labels", message));
            }
            Governance::Policy(policy) => {
                let Some(judged) = verdict.policies.iter().find(|judged| judged.policy.name == policy.name) else { continue };
                let template = &pool.spec.template.spec;
                let lifetime = Lifetime { expire_after: template.expire_after(), grace: template.grace() };
                let derivation = Derivation::of(&policy.settings, &judged.schedule, lifetime, terms.cadence);
                let found = found(policy, &judged.schedule, pool, &derivation, terms);
                told.extend(found.iter().map(|finding| tell(judged, Some((pool, file, node)), finding)));
                governed.push(OnPool { pool: Some(name.clone()), policy: policy.name.clone(), derivation, findings: found });
            }
        }
    }
    if !pools.is_empty() {
        tied_names.extend(governed.iter().map(|on: &OnPool| on.policy.clone()));
        told.extend(idle(verdict, &tied_names));
    }
    verdict.diagnostics.extend(told);
    verdict.pools.extend(governed);
}

fn idle<'a>(verdict: &'a Verdict, busy: &'a BTreeSet<String>) -> impl Iterator<Item = Diagnostic> + 'a {
    verdict.policies.iter().filter(|judged| !busy.contains(&judged.policy.name)).map(|Judged { policy, file, node, .. }| {
        let path = "spec.nodePoolSelector";
        let message = "it governs none of the NodePools in these files".to_owned();
        Diagnostic::new(Severity::Note, "GovernsNothing", (file, node.locate(path)), &about(policy), path, message)
    })
}

/// A finding, at the field that is to be changed.
fn tell(judged: &Judged, pool: Option<(&NodePool, &str, &Node)>, finding: &Finding) -> Diagnostic {
    let severity = if finding.code.level() == Level::Fatal { Severity::Error } else { Severity::Warning };
    let (of_pool, path) = field(finding.code);
    let about = about(&judged.policy);
    if needs_no_pool(finding.code) {
        let at = (judged.file.as_str(), judged.node.locate(path));
        return Diagnostic::new(severity, finding.code.name(), at, &about, path, finding.message.clone());
    }
    match pool {
        Some((pool, file, node)) if of_pool => {
            let object = format!("NodePool {}", pool.metadata.name);
            Diagnostic::new(severity, finding.code.name(), (file, node.locate(path)), &object, path, finding.message.clone())
        }
        _ => {
            let path = if of_pool { "spec" } else { path };
            let on = pool.map(|(pool, ..)| format!("on NodePool {}: ", pool.metadata.name)).unwrap_or_default();
            let at = (judged.file.as_str(), judged.node.locate(path));
            Diagnostic::new(severity, finding.code.name(), at, &about, path, format!("{on}{}", finding.message))
        }
    }
}

/// Whether the field that a finding is about is the NodePool's, and its path.
fn field(code: Code) -> (bool, &'static str) {
    match code {
        Code::KBelowOne | Code::KBelowTwo => (false, "spec.minRotationChances"),
        Code::OverrideNonPositive | Code::OverrideGBelowOne | Code::OverrideGBelowK => (false, "spec.ageThreshold"),
        Code::RetryBackoffShort => (false, "spec.surge.retryBackoff"),
        Code::ProvisioningEstimateAboveReadyTimeout => (false, "spec.surge.provisioningEstimate"),
        Code::DrainEstimateAboveTGP => (false, "spec.surge.drainEstimate"),
        Code::ZoneNotRequired => (false, "spec.surge.matchNodeRequirements.required"),
        Code::TGPUnset => (true, "spec.template.spec.terminationGracePeriod"),
        Code::HardCapExceeded => (true, "spec.template.spec.expireAfter"),
        Code::StaticNodePool => (true, "spec.replicas"),
        Code::BlackoutCutsChances => (false, "spec.blackouts"),
        // Windows, their number and their distance; also findings of later versions.
        _ => (false, "spec.maintenanceWindows"),
    }
}
