use super::*;
use crate::{
    fixture::{self, NOW, at},
    kube::lease::Record,
};

const SCREEN: Screen = Screen { width: Some(120), colour: false, headers: true };

fn status(lease: Result<Option<Record>, String>) -> Status {
    let view = fixture::view();
    let config = fixture::config();
    Status::of(&view, &decide(&view, at(NOW), &config), lease, at(NOW), &config, None)
}

fn record(spec: serde_json::Value) -> Record {
    Record::read(&serde_json::json!({"metadata": {}, "spec": spec}))
}

fn told(status: &Status, format: Format, screen: Screen) -> String {
    render(status, format, screen, Reader::In(chrono_tz::Tz::America__New_York)).unwrap()
}

#[test]
fn what_is_in_flight_is_told_with_what_it_waits_for() {
    let released = record(serde_json::json!({"holderIdentity": "", "renewTime": "2026-12-05T01:59:20Z"}));
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
    let spec = |renewed: &str| serde_json::json!({"holderIdentity": "cron_1", "acquireTime": renewed, "renewTime": renewed});
    assert_eq!(words(Ok(Some(record(spec("2026-12-05T01:59:55Z"))))), "A pass is at work: cron_1, begun 5s ago.");
    assert_eq!(
        words(Ok(Some(record(spec("2026-12-05T01:50:00Z"))))),
        "No pass is at work. cron_1 was ended without giving the Lease back; it has expired."
    );
    assert_eq!(words(Ok(None)), "No pass is at work. there is no Lease: no pass has ever run here, or it has another namespace.");
    assert_eq!(words(Err("get Lease: HTTP 403".into())), "No pass is at work. get Lease: HTTP 403.");
}
