//! C17: exactly six digits. `MicroTime` is parsed with a layout of six fractional digits; a library that prints as many
//! as it needs fails on whole seconds, which are the common case where time comes from a `Date` header. What an API server
//! does with other forms is shown in `tests/shell.rs`.

use chrono::TimeDelta;
use noderotation::api::time::{parse_annotation, to_annotation, to_micro};

use crate::{
    program::{Kubeconfig, ended},
    server::Server,
};

#[test]
fn six_digits_go_out_whatever_has_passed_since_the_date() {
    let date = parse_annotation("2026-11-30T07:00:00Z").unwrap();
    for (nanoseconds, expected) in [
        (0, "2026-11-30T07:00:00.000000Z"),
        (500_000_000, "2026-11-30T07:00:00.500000Z"),
        (123_456_789, "2026-11-30T07:00:00.123456Z"),
        (999_999_999, "2026-11-30T07:00:00.999999Z"),
    ] {
        let now = date + TimeDelta::nanoseconds(nanoseconds);
        assert_eq!(to_micro(now), expected);
        assert_eq!(to_annotation(now), "2026-11-30T07:00:00Z", "annotations have whole seconds");
        assert!(parse_annotation(expected).is_some(), "reading is lenient");
    }
}

#[tokio::test]
async fn every_lease_that_is_sent_has_six_digits() {
    let server = Server::start(|_| None).await;
    let ended = ended(Kubeconfig::plain(server.port).run(&[])).await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    let sent: Vec<_> = server.requests().into_iter().filter(|request| request.method != "GET").collect();
    assert_eq!(sent.len(), 2, "taken and given back: {sent:?}");
    for request in sent {
        for field in ["acquireTime", "renewTime"] {
            let time = request.body["spec"][field].as_str().unwrap();
            let (seconds, fraction) = time.split_once('.').unwrap();
            assert!(seconds.starts_with("2026-11-30T07:00:"), "{time}");
            assert!(fraction.len() == 7 && fraction.ends_with('Z') && fraction[..6].bytes().all(|digit| digit.is_ascii_digit()), "{time}");
        }
    }
}
