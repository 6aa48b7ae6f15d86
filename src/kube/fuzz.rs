//! Objects that nobody would write, through whole passes: generated, broken in a few places, served by the small API server,
//! read by the real lists, decided, performed. No panic, not even one that is caught; and every write that arrives is
//! judged by [`judge`], which knows nothing of the code that asked for it.
//!
//! Each case has a seed of its own, which gives the same objects and passes again.

use std::{
    cell::RefCell,
    panic::{self, AssertUnwindSafe},
    sync::{
        Once,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use chrono::TimeDelta;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

use super::{
    fake::{Fake, Store, Write, refuse},
    resource::{NODECLAIMS, NODEPOOLS, NODES, POLICIES, collection, pods},
    session::{Session, Terms},
};
use crate::{
    api::time::{later, to_annotation},
    cluster::Cluster,
    kube::execute::{Mode, fresh, request},
    pass,
    rotation::{
        decide::decide,
        effect::{Effect, Fresh, Kind, Verdict, apply},
        scene::Config,
        step::Planned,
        tests::fleet::{config, now},
    },
};

mod broken;
mod generate;
mod judge;

/// So many objects are generated where nothing else is asked for.
const OBJECTS: u64 = 4_000;
/// A `u64` that stands in an environment variable.
fn asked(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().filter(|text| !text.is_empty()).map(|text| text.parse().expect(variable))
}

thread_local! {
    /// Where this thread has panicked since its case began; `None` outside a case.
    static PANICKED: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// A panic that the pass catches would be lost in an error of one pool.
fn notice_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let noted = PANICKED.with_borrow_mut(|panicked| panicked.as_mut().map(|list| list.push(info.to_string())));
            if noted.is_none() {
                before(info);
            }
        }));
    });
}

/// What one case came to.
#[derive(Default)]
struct Seen {
    objects: u64,
    writes: u64,
    starts: u64,
    wrong: Vec<String>,
}

/// Cases from this seed on, on as many threads as asked for, until there are enough objects or one case went wrong.
fn cases(seed: u64, wanted: u64, threads: u64) -> (u64, Seen) {
    let (next, objects) = (AtomicU64::new(seed), AtomicU64::new(0));
    let work = || {
        let mut sum = Seen::default();
        while objects.load(Ordering::Relaxed) < wanted && sum.wrong.is_empty() {
            let case = next.fetch_add(1, Ordering::Relaxed);
            let seen = run(case);
            sum.writes += seen.writes;
            sum.starts += seen.starts;
            sum.objects += seen.objects;
            if !seen.wrong.is_empty() {
                sum.wrong.extend(seen.wrong.iter().map(|wrong| format!("{wrong:.4000}")));
                sum.wrong.push(format!("the same again: make fuzz SEED={case} COUNT=1"));
                objects.store(wanted, Ordering::Relaxed);
            }
            objects.fetch_add(seen.objects, Ordering::Relaxed);
        }
        sum
    };
    let sums: Vec<Seen> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut all = Seen::default();
    for sum in sums {
        all.objects += sum.objects;
        all.writes += sum.writes;
        all.starts += sum.starts;
        all.wrong.extend(sum.wrong);
    }
    (next.into_inner() - seed, all)
}

#[test]
fn broken_objects_neither_panic_nor_lead_to_a_write_on_what_is_not_ours() {
    notice_panics();
    let (seed, wanted) = (asked("NODEROTATION_FUZZ_SEED").unwrap_or(1), asked("NODEROTATION_FUZZ_COUNT").unwrap_or(OBJECTS));
    let began = Instant::now();
    let (cases, seen) = cases(seed, wanted, asked("NODEROTATION_FUZZ_THREADS").unwrap_or(1));
    assert!(seen.wrong.is_empty(), "{}\n", seen.wrong.join("\n"));
    println!(
        "fuzz: SEED={seed}: {} objects in {cases} cases, {} writes, {} starts, in {:.1?}",
        seen.objects,
        seen.writes,
        seen.starts,
        began.elapsed()
    );
    assert!(wanted < OBJECTS || (seen.starts > seen.objects / 500 && seen.writes > seen.objects / 50), "too little happens");
}

fn run(seed: u64) -> Seen {
    PANICKED.set(Some(Vec::new()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ended = panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(case(seed))));
    let panicked = PANICKED.take().unwrap_or_default();
    let mut seen = ended.unwrap_or_default();
    seen.wrong.extend(panicked.into_iter().map(|words| format!("a panic: {words}")));
    seen
}

/// Some passes over one generated cluster, some minutes apart.
async fn case(seed: u64) -> Seen {
    let mut random = StdRng::seed_from_u64(seed);
    let objects = generate::objects(&mut random);
    let mut seen = Seen { objects: objects.len() as u64, ..Seen::default() };
    let fake = Fake::new();
    fake.store(|store| {
        for (path, object) in objects {
            store.put(&path, object);
        }
        store.now = Some(now());
        store.strict = true;
        store.judge = Some(note_and_judge);
    });
    let config = Config { rehearse: random.random_bool(0.5), max_in_flight: random.random_bool(0.2).then_some(1), ..config() };
    for _ in 0..random.random_range(1..=3) {
        if random.random_bool(0.15) {
            let method = ["PATCH", "POST", "DELETE", "GET"][random.random_range(0..4)];
            fake.fault(method, refuse([403, 404, 422][random.random_range(0..3)], "not here"));
        }
        one_pass(&fake, &config, &mut seen).await;
        fake.store(|store| between(store, &mut random));
    }
    fake.store(|store| seen.wrong.append(&mut store.forbidden));
    for line in fake.log() {
        let is_write = !line.starts_with("GET") && !line.contains("/leases") && !line.contains("/events") && !line.contains("dryRun");
        seen.writes += u64::from(is_write);
        seen.starts += u64::from(is_write && line.contains("POST") && line.contains("/pods"));
    }
    seen
}

fn note_and_judge(store: &Store, write: &Write<'_>) -> Option<String> {
    judge::judge(store, write).map(|why| format!("{why}: {} {} {}", write.method, write.path, write.body))
}

/// Every planned effect by itself, and then the pass as it is.
async fn one_pass(fake: &Fake, config: &Config, seen: &mut Seen) {
    let terms = Terms { namespace: config.placeholder.namespace.clone(), ..fake.terms() };
    let Ok(mut session) = Session::open(fake.client(), terms).await else { return };
    if let Ok(view) = pass::view(&session, config).await {
        let decision = decide(&view, session.now(), config);
        let steps = decision.steps.values().flat_map(|step| step.aside.iter().chain(&step.effects));
        decision.sweep.iter().chain(steps).for_each(|planned| alone(fake, planned, session.pass_id(), seen));
    }
    let Ok(look) = pass::ready(&mut session, config, std::time::Duration::ZERO).await else { return };
    pass::pass_over(&session, 1, look).await;
    session.close().await;
}

/// One effect, whatever came before it: the shape of what it would write.
fn alone(fake: &Fake, planned: &Planned, pass: &str, seen: &mut Seen) {
    for instead in planned.on_refused.iter().flat_map(|refused| refused.instead()) {
        alone(fake, instead, pass, seen);
    }
    let target = planned.effect.target();
    let path = format!("{}/{}", collection(&target), target.name);
    let stored = fake.get(&path);
    let copy = stored.map(|object| fresh(target.kind, &object.to_string().into_bytes().into()));
    let verdict = match &copy {
        Some(Err(_)) => return,
        Some(Ok(copy)) => apply(&planned.effect, Some(copy), pass),
        None => apply(&planned.effect, None, pass),
    };
    if matches!(verdict, Verdict::Already | Verdict::NotMine(_) | Verdict::Gone) {
        return;
    }
    let copy = copy.and_then(Result::ok);
    if let Some(why) = fits(&planned.effect, &verdict, copy.as_ref()) {
        seen.wrong.push(format!("{why}: {:?} gives {verdict:?}", planned.effect));
    }
    let (verb, built) = request(&target, &verdict, Mode::DryRun);
    let Ok(built) = built else { return };
    let body: Value = serde_json::from_slice(built.body()).unwrap_or_default();
    let method = built.method().as_str().to_owned();
    let write = Write { method: &method, path: built.uri().path(), dry_run: true, body: &body };
    let wrong = fake.store(|store| judge::judge(store, &write));
    seen.wrong.extend(wrong.map(|why| format!("{why}: {verb} by {:?}: {body}", planned.effect)));
}

/// What kind of write an effect may come to.
fn fits(effect: &Effect, verdict: &Verdict, copy: Option<&Fresh>) -> Option<String> {
    let fits = match effect {
        Effect::DeleteClaim { uid: of, .. } | Effect::ReapClaim { uid: of, .. } => matches!(verdict, Verdict::Delete { uid } if uid == of),
        Effect::DeletePlaceholder { .. } => matches!(verdict, Verdict::Delete { .. }) && matches!(copy, Some(Fresh::Pod(_))),
        Effect::CreatePlaceholder { .. } => matches!(verdict, Verdict::Create(_)) && copy.is_none(),
        _ => matches!(verdict, Verdict::Patch(_)) && copy.is_some(),
    };
    (!fits).then(|| "an effect that writes something else".into())
}

/// What goes on between two passes: time, the scheduler, Karpenter.
fn between(store: &mut Store, random: &mut StdRng) {
    let span = [TimeDelta::minutes(1), TimeDelta::minutes(16), TimeDelta::hours(2), TimeDelta::days(3)][random.random_range(0..4)];
    let now = later(store.now.unwrap(), span);
    store.now = Some(now);
    let paths: Vec<String> = store.objects.keys().cloned().collect();
    for path in paths {
        let mut object = store.objects[&path].clone();
        if path.starts_with(NODECLAIMS) && !object["metadata"]["deletionTimestamp"].is_null() && random.random_bool(0.6) {
            store.objects.remove(&path);
        } else if path.contains("/pods/noderotation-surge-") && object["spec"].is_object() && random.random_bool(0.7) {
            let host = ["node-b", "node-a", "node-c", "node-x"][random.random_range(0..4)];
            object["spec"]["nodeName"] = json!(host);
            let phase = ["Running", "Running", "Failed", "Pending"][random.random_range(0..4)];
            object["status"] = json!({"phase": phase});
            store.put(&path, object);
        }
    }
    if random.random_bool(0.5) {
        let [claim, node] = generate::newcomer("b", &to_annotation(now));
        store.put(&format!("{NODECLAIMS}/b"), claim);
        store.put(&format!("{NODES}/node-b"), node);
    }
}

/// Where an object of a fleet is served.
fn path(kind: Kind, object: &Value, name: &str) -> String {
    match kind {
        Kind::NodePool => format!("{NODEPOOLS}/{name}"),
        Kind::NodeClaim => format!("{NODECLAIMS}/{name}"),
        Kind::Node => format!("{NODES}/{name}"),
        Kind::Pod => format!("{}/{name}", pods(object["metadata"]["namespace"].as_str().unwrap_or("shop"))),
    }
}

/// Where a policy is served.
fn policy_path(name: &str) -> String {
    format!("{POLICIES}/{name}")
}
