//! A decision as stable lines of text, and what every check does for free.

use std::collections::BTreeSet;

use super::fleet::{Fleet, config};
use crate::{
    api::{
        events::Kind,
        time::{Time, format_duration, to_annotation},
    },
    rotation::{
        decide::{Decision, ROUNDS, decide, needs},
        effect::{Effect, End, Owner},
        notice::Notice,
        scene::Config,
        step::{Next, Planned, Say, Step},
    },
    view::{Need, View},
};

/// Decides the fleet's pass, in rounds as a pass does: what was asked in each, the sweep, and the step of every pool.
/// On the way it proves that the answer is always the same, also where the API server orders lists differently.
pub fn check(fleet: &Fleet, now: Time) -> String {
    let (view, asked) = read(fleet, now);
    let text = asked + &render(&decide(&view, now, &config()));
    assert_eq!(text.lines().last(), render(&decide(&view, now, &config())).lines().last());
    let mut shuffled = view.clone();
    shuffled.facts.pods_on.values_mut().for_each(|pods| pods.reverse());
    shuffled.facts.budgets.values_mut().for_each(|budgets| budgets.reverse());
    shuffled.unreadable.reverse();
    assert_eq!(decide(&view, now, &config()), decide(&shuffled, now, &config()), "the order of lists must not matter");
    text
}

/// Only the steps' first lines: for tables.
pub fn action(fleet: &Fleet, now: Time) -> String {
    let (view, _) = read(fleet, now);
    let decision = decide(&view, now, &config());
    let steps = decision.steps.values().map(|step| format!("{}: {}", step.action.code, step.action.detail));
    steps.chain(decision.errors.values().map(|error| format!("error: {error}"))).collect::<Vec<_>>().join("\n")
}

/// The step of the only pool.
pub fn only_step(fleet: &Fleet, now: Time) -> Step {
    let (view, _) = read(fleet, now);
    let decision = decide(&view, now, &config());
    assert_eq!((decision.steps.len(), decision.errors.len()), (1, 0), "{:?}", decision.errors);
    decision.steps.into_values().next().unwrap()
}

/// Loads the View and reads the facts in rounds; answers what each asked for.
pub fn read(fleet: &Fleet, now: Time) -> (View, String) {
    read_with(fleet, now, &config())
}

/// The same under other flags.
pub fn read_with(fleet: &Fleet, now: Time, config: &Config) -> (View, String) {
    let mut view = fleet.load();
    let mut asked = String::new();
    for _ in 0..ROUNDS {
        let needs = needs(&view, now, config);
        if needs.is_empty() {
            break;
        }
        asked += &format!("asks {}\n", needs.iter().map(asks).collect::<Vec<_>>().join(", "));
        fleet.answer(&mut view, &needs);
    }
    assert_eq!(needs(&view, now, config), BTreeSet::new(), "the rounds do not suffice");
    (view, asked)
}

fn asks(need: &Need) -> String {
    match need {
        Need::NodesOfPool(pool) => format!("nodes of {pool}"),
        Need::Node(node) => node.clone(),
        Need::PodsOn(node) => format!("pods on {node}"),
        Need::BudgetsIn(namespace) => format!("budgets in {namespace}"),
        Need::EventsAbout(pod) => format!("events about {pod}"),
        Need::Rehearsal(rehearsal) => format!("rehearsal: {}", words(&rehearsal.0)),
    }
}

fn render(decision: &Decision) -> String {
    let mut lines: Vec<String> = decision.sweep.iter().map(|planned| format!("sweep: {}", effect(planned))).collect();
    for (pool, step) in &decision.steps {
        lines.push(format!("{pool}: {}: {}", step.action.code, step.action.detail));
        lines.extend(step.aside.iter().map(|planned| format!("  aside: {}", effect(planned))));
        lines.extend(step.effects.iter().map(|planned| format!("  {}", effect(planned))));
        lines.extend(step.conditions.iter().map(|notice| format!("  ! {}", told(notice))));
        lines.extend(step.error.iter().map(|error| format!("  error: {error}")));
        lines.extend(step.wake_at.iter().map(|wake| format!("  wakes {}", to_annotation(*wake))));
    }
    lines.extend(decision.errors.iter().map(|(pool, error)| format!("{pool}: error: {error}")));
    lines.join("\n")
}

fn effect(planned: &Planned) -> String {
    let mut text = words(&planned.effect);
    if planned.on_gone == Next::GoOn {
        text += " | gone is fine";
    }
    if let Some(refused) = &planned.on_refused {
        if let Some(notice) = &refused.tell {
            text += &format!(" | refused: {}", notice.reason);
        }
        if !refused.instead().is_empty() {
            text +=
                &format!(" | instead: {}", refused.instead().iter().map(|planned| words(&planned.effect)).collect::<Vec<_>>().join(", "));
        }
    }
    if let Some(say) = &planned.say {
        text += &format!(" | says {}", says(say));
    }
    text
}

fn says(say: &Say) -> String {
    match say {
        Say::Started { .. } => "RotationStarted".into(),
        Say::Fallback { .. } => "ForcefulFallback".into(),
        Say::Released { announce_expired, .. } => {
            if *announce_expired {
                "the outcome, RotationExpired too".into()
            } else {
                "the outcome".into()
            }
        }
        Say::Failed { why, .. } => format!("RotationFailed: {why}"),
        Say::Expired { .. } => "RotationExpired".into(),
        Say::Swept { .. } => "RotationSwept".into(),
        Say::Notice(notice) => notice.reason.into(),
        Say::Log(line) => format!("log: {line}"),
    }
}

fn told(notice: &Notice) -> String {
    let kind = match notice.kind {
        Kind::Normal => "Normal",
        Kind::Warning => "Warning",
    };
    let subject = if notice.subject.is_empty() { String::new() } else { format!(" ({})", notice.subject) };
    format!("{kind} {} on {} {}{subject}: {}", notice.reason, notice.regarding.kind, notice.regarding.name, notice.message)
}

/// An effect in one line, with all that it carries.
pub fn words(effect: &Effect) -> String {
    let stamp = |time: &Time| to_annotation(*time);
    let after = |failed_at: &Option<Time>| failed_at.map_or(String::new(), |time| format!(" after the failure at {}", stamp(&time)));
    match effect {
        Effect::Anchor { pool, claim, failed_at, .. } => format!("anchor {pool} on {claim}{}", after(failed_at)),
        Effect::StartFallback { pool, claim, at, failed_at } => {
            format!("anchor {pool} on {claim} as fallback at {}{}", stamp(at), after(failed_at))
        }
        Effect::MirrorDraining { pool, claim, at, surge } => {
            let surge = surge.map_or(String::new(), |(wait, path)| format!(", surge {} {}", path.as_str(), format_duration(wait)));
            format!("mirror draining of {claim} on {pool} at {}{surge}", stamp(at))
        }
        Effect::SettleWindows { pool, from, to, missed } => format!("settle {pool} from {from:?} to {to}, {missed} missed"),
        Effect::Release { pool, claim, end, at } => {
            let end = match end {
                End::Failed { failed_at } => format!("Failed at {}", stamp(failed_at)),
                end => format!("{end:?}"),
            };
            format!("release {pool} from {claim} at {}: {end}", stamp(at))
        }
        Effect::DropOrphans { pool } => format!("drop orphans of {pool}"),
        Effect::ForgetPoolWriter { pool } => format!("unsign {pool}"),
        Effect::BeginAttempt { claim, from, at } => format!("begin {claim} from {from:?} at {}", stamp(at)),
        Effect::NoteSurgeClaim { claim, induced } => format!("note that {induced} came for {claim}"),
        Effect::MarkDraining { claim, from } => format!("mark {claim} draining from {from:?}"),
        Effect::MarkFailed { claim, at } => format!("mark {claim} failed at {}", stamp(at)),
        Effect::MarkExpired { claim, from } => format!("mark {claim} expired from {from:?}"),
        Effect::ClearClaim { claim } => format!("clear {claim}"),
        Effect::SweepClaim { claim, at } => format!("sweep {claim} at {}", stamp(at)),
        Effect::DeleteClaim { claim, uid } => format!("delete claim {claim} ({uid})"),
        Effect::ReapClaim { claim, uid } => format!("reap claim {claim} ({uid})"),
        Effect::Freeze { node, claim } => format!("freeze {node} for {claim}"),
        Effect::Hold { node, claim } => format!("hold {node} for {claim}"),
        Effect::Restore { node, owner: Owner::Claim(claim) } => format!("restore {node} from {claim}"),
        Effect::Restore { node, owner: Owner::NoneOf(anchored) } => format!("restore {node} from any but {anchored:?}"),
        Effect::CreatePlaceholder { pod, claim } => {
            let requests = pod.spec.as_ref().and_then(|spec| spec.containers.first()?.resources.as_ref()?.requests.clone());
            let requests: Vec<String> =
                requests.unwrap_or_default().iter().map(|(resource, quantity)| format!("{resource} {}", quantity.0)).collect();
            format!("create the placeholder of {claim} ({})", requests.join(", "))
        }
        Effect::DeletePlaceholder { namespace, name, claim } => format!("delete the placeholder {namespace}/{name} of {claim}"),
    }
}
