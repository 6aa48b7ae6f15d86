use proptest::prelude::*;
use serde_json::json;

use super::*;

fn parse(text: &str) -> Quantity {
    Quantity::parse(text).unwrap()
}

fn resources(list: &[(&str, &str)]) -> Resources {
    Resources(list.iter().map(|(resource, text)| ((*resource).into(), parse(text))).collect())
}

/// Case C23: what `resource.ParseQuantity` says.
#[test]
fn quantities_read_as_kubernetes_reads_them() {
    let table: [(&str, i64, i128); 19] = [
        ("100m", 1, 100_000_000),
        ("1.5Gi", 1_610_612_736, 1_610_612_736 * UNIT),
        ("0.5Gi", 536_870_912, 536_870_912 * UNIT),
        ("1e3", 1000, 1000 * UNIT),
        ("1E3", 1000, 1000 * UNIT),
        ("129e6", 129_000_000, 129_000_000 * UNIT),
        ("1E", 1_000_000_000_000_000_000, 1_000_000_000_000_000_000 * UNIT),
        ("1Ei", 1 << 60, (1 << 60) * UNIT),
        ("128974848000m", 128_974_848, 128_974_848 * UNIT),
        ("5.", 5, 5 * UNIT),
        (".5", 1, UNIT / 2),
        ("+1", 1, UNIT),
        ("-1", -1, -UNIT),
        ("100n", 1, 100),
        ("1e-3", 1, UNIT / 1000),
        ("9223372036854775807", i64::MAX, MAX),
        ("9223372036854775808", i64::MAX, MAX),
        ("12E", i64::MAX, MAX),
        ("16Ei", i64::MAX, MAX),
    ];
    for (text, value, nanos) in table {
        assert_eq!((parse(text).value(), parse(text).0), (value, nanos), "{text}");
    }
    for text in ["1K", "1ki", "1 Gi", " 1Gi", "", "1.5.5", "0x10", "1_000", "10e", "1e3Mi"] {
        assert_eq!(Quantity::parse(text), Err(NotAQuantity(format!("{text:?}"))));
    }
}

#[test]
fn a_text_without_a_digit_is_never_zero() {
    for text in ["m", ".", "+", "-", "Gi", "+.", "e3", "NaN", "inf", "１", "1e", "1e+", "--1", "1e99999999999999999999"] {
        assert_eq!(Quantity::parse(text), Err(NotAQuantity(format!("{text:?}"))), "{text}");
    }
}

#[test]
fn what_is_smaller_than_a_nano_unit_is_rounded_up_and_what_is_too_large_saturates() {
    for (text, nanos) in [
        ("0.1n", 1),
        ("-0.1n", -1),
        ("1.0000000001", UNIT + 1),
        ("0.00000000000000000001Ei", 11_529_216),
        ("1e-999999999999", 1),
        ("0e999999999999", 0),
        ("1e999999999999", MAX),
        ("-16Ei", -MAX),
        ("000000000000000000000000000000000000000001", UNIT),
    ] {
        assert_eq!(parse(text).0, nanos, "{text}");
    }
    assert_eq!(parse(&format!("0.{}1", "0".repeat(5000))).0, 1);
    assert_eq!(parse(&"9".repeat(5000)).0, MAX);
}

#[test]
fn numbers_of_json_are_quantities_and_null_is_none() {
    for (value, nanos) in
        [(json!(1000), 1000 * UNIT), (json!(0), 0), (json!(0.1), UNIT / 10), (json!(1e30), MAX), (json!("3Ki"), 3072 * UNIT)]
    {
        assert_eq!(Quantity::parse_value(&value).unwrap().0, nanos, "{value}");
    }
    for value in [json!(null), json!(true), json!(["1"]), json!({"cpu": 1})] {
        assert_eq!(Quantity::parse_value(&value), Err(NotAQuantity(value.to_string())));
    }
}

#[test]
fn the_canonical_form_is_binary_for_bytes_and_decimal_for_the_rest() {
    let canonical = |text: &str, resource: &str| parse(text).canonical(resource);
    for (text, resource, expected) in [
        ("2933Mi", "memory", "2933Mi"),
        ("3072", "memory", "3Ki"),
        ("1000", "memory", "1000"),
        ("1500m", "memory", "1500m"),
        ("64Mi", "hugepages-2Mi", "64Mi"),
        ("0", "memory", "0"),
        ("1.5", "cpu", "1500m"),
        ("2000m", "cpu", "2"),
        ("1000", "cpu", "1k"),
        ("2", "example.com/gpu", "2"),
        ("-3", "nodes", "-3"),
        ("1n", "cpu", "1n"),
    ] {
        assert_eq!(canonical(text, resource), expected);
    }
}

#[test]
fn sums_are_exact_and_saturate() {
    let tenth = resources(&[("cpu", "0.1")]);
    assert_eq!(Resources::sum([&tenth, &tenth, &tenth]), resources(&[("cpu", "300m")]));
    let huge = resources(&[("memory", "9223372036854775807")]);
    assert_eq!(Resources::sum([&huge, &huge]), huge);
    assert_eq!(resources(&[("nodes", "0")]).saturating_sub(&resources(&[("nodes", "3"), ("cpu", "1")])), resources(&[("nodes", "-3")]));
}

#[test]
fn a_request_fits_only_where_every_resource_is_there() {
    let room = resources(&[("cpu", "2"), ("memory", "1Gi")]);
    assert!(resources(&[("cpu", "2")]).fits(&room));
    assert!(!resources(&[("cpu", "2001m")]).fits(&room));
    assert!(!resources(&[("example.com/gpu", "1")]).fits(&room));
    assert!(resources(&[("example.com/gpu", "0")]).fits(&room));
}

#[test]
fn one_unreadable_resource_is_named() {
    let raw = RawResources::from([("cpu".into(), json!(1)), ("memory".into(), json!("1 Gi"))]);
    let why = NotAQuantity("\"1 Gi\"".into());
    assert_eq!(Resources::from_raw(&raw), Err(UnreadableResource { resource: "memory".into(), why }));
}

proptest! {
    #[test]
    fn the_canonical_form_reads_back_as_the_same(nanos in -MAX..=MAX, shift in 0_u32..28) {
        let quantity = Quantity(nanos / 10_i128.pow(shift) * 10_i128.pow(shift));
        for resource in ["cpu", "memory", "example.com/gpu"] {
            prop_assert_eq!(parse(&quantity.canonical(resource)), quantity);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[+-]?[0-9.]{0,40}[eEinumkKMGTP]{0,3}[+-]?[0-9]{0,12}|.*") {
        if let Ok(quantity) = Quantity::parse(&text) {
            prop_assert!((-MAX..=MAX).contains(&quantity.0));
        }
    }
}
