use serde_json::json;

use super::*;
use crate::{
    cli::only::Only,
    fixture::{self, NOW, at},
    kube::lease::{LastPass, Record},
};

const SCREEN: Screen = Screen { width: Some(120), height: None, colour: false, headers: true };

fn status(lease: Result<Option<Record>, String>) -> Status {
    let view = fixture::view();
    let config = fixture::config();
    Status::of(&view, &decide(&view, at(NOW), &config), lease, at(NOW), &config, Only::All)
}

fn record(spec: serde_json::Value) -> Record {
    Record::read(&json!({"metadata": {}, "spec": spec}))
}

fn told(status: &Status, format: Format, screen: Screen) -> String {
    render(status, format, screen, Reader::In("America/New_York".parse().unwrap())).unwrap()
}

#[test]
fn what_is_in_flight_is_told_with_what_it_waits_for() {
    let released = record(json!({"holderIdentity": "", "renewTime": "2026-12-05T01:59:20Z"}));
    let status = status(Ok(Some(released)));
    for width in [80, 120] {
        let text = told(&status, Format::Table, Screen { width: Some(width), ..SCREEN });
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
        insta::assert_snapshot!(format!("status_{width}"), text);
    }
    insta::assert_snapshot!("status_json", told(&status, Format::Json, SCREEN));
}

#[test]
fn the_lease_tells_of_passes() {
    let words = |lease| told(&status(lease), Format::Table, SCREEN).lines().last().unwrap_or_default().to_owned();
    let held = |renewed: &str| record(json!({"holderIdentity": "cron_1", "acquireTime": renewed, "renewTime": renewed}));
    assert_eq!(words(Ok(Some(held("2026-12-05T01:59:55Z")))), "A pass is at work: cron_1, begun 5s ago.");
    assert_eq!(
        words(Ok(Some(held("2026-12-05T01:58:00Z")))),
        "The pass cron_1 was ended without giving the Lease back, last renewed 2m ago."
    );
    assert_eq!(words(Ok(None)), "There is no Lease: no pass has ever run here, or passes have another namespace (-n).");
    assert_eq!(words(Err("get Lease: HTTP 403".into())), "Whether passes run is not known: get Lease: HTTP 403.");
    let released = |at: &str| record(json!({"holderIdentity": "", "renewTime": at}));
    assert_eq!(words(Ok(Some(released("2026-12-05T01:57:30Z")))), "No pass is at work. The last one ended 2m30s ago.");
}

#[test]
fn passes_that_fail_or_stay_away_are_told() {
    let words = |holder: &str, renewed: &str, last: LastPass| {
        let spec = json!({"holderIdentity": holder, "acquireTime": renewed, "renewTime": renewed, "leaseDurationSeconds": 20});
        let metadata = json!({"annotations": {"noderotation.io/last-pass": last.text()}});
        let text = told(&status(Ok(Some(Record::read(&json!({"metadata": metadata, "spec": spec}))))), Format::Table, SCREEN);
        text.rsplit("\n\n").next().unwrap_or_default().replace('\n', " ").trim().to_owned()
    };
    let last = |ended, code, failed: &[&str], why| LastPass::new(at(ended), code, failed.iter().map(ToString::to_string), why);
    assert_eq!(
        words("", "2026-12-05T01:59:20Z", last("2026-12-05T01:59:20Z", 1, &["api", "web"], "errors: 2 in execute")),
        "No pass is at work. The last one failed on api, web 40s ago (exit code 1): errors: 2 in execute; the log of its Pod says more."
    );
    // While the next one works, too.
    assert_eq!(
        words("cron_2", "2026-12-05T01:59:58Z", last("2026-12-05T01:59:00Z", 143, &[], "a signal came")),
        "A pass is at work: cron_2, begun 2s ago. The last one failed 1m ago (exit code 143): a signal came; the log of its Pod says more."
    );
    // A command that took the Lease after it (`abort`) is no pass.
    assert_eq!(
        words("", "2026-12-05T01:59:50Z", last("2026-12-05T01:59:10Z", 0, &[], "")),
        "No pass is at work. The last one ended 50s ago."
    );
    assert_eq!(
        words("", "2026-12-05T01:48:00Z", last("2026-12-05T01:48:00Z", 0, &[], "")),
        "No pass is at work. The last one ended 12m ago. One should begin every 1m: does the CronJob run, and what do its Pods say?"
    );
    // What a pass before the killed one came to is of no use.
    assert_eq!(
        words("cron_3", "2026-12-05T01:00:00Z", last("2026-12-05T00:59:00Z", 1, &["web"], "")),
        "The pass cron_3 was ended without giving the Lease back, last renewed 1h ago. One should begin every 1m: does the CronJob run, and what do \
         its Pods say?"
    );
}
