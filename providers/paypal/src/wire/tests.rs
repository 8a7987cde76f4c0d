use super::*;
use serde_json::{Value, json};

/// The same for the module.
pub(crate) fn read(value: &Value) -> Json {
    Json::parse(value.to_string().as_bytes()).unwrap()
}

/// An order as PayPal tells it, with these captures.
pub(crate) fn told(status: &str, captures: &[Value]) -> Value {
    let mut order = json!({
        "id": "5O190127TN364715T", "intent": "CAPTURE", "status": status,
        "payment_source": { "paypal": {} },
        "purchase_units": [{
            "reference_id": "default", "custom_id": "attempt-1", "invoice_id": "attempt-1",
            "amount": { "currency_code": "EUR", "value": "49.90" },
            "payee": { "merchant_id": "7KNGBPH2U58GQ" },
        }],
        "links": [
            { "href": "https://api-m.paypal.com/v2/checkout/orders/5O190127TN364715T", "rel": "self", "method": "GET" },
            { "href": "https://www.paypal.com/checkoutnow?token=5O190127TN364715T", "rel": "payer-action", "method": "GET" },
        ],
    });
    if !captures.is_empty() {
        order["purchase_units"][0]["payments"] = json!({ "captures": captures });
    }
    order
}

/// A capture as PayPal tells it.
pub(crate) fn captured(status: &str, reason: Option<&str>) -> Value {
    let mut capture = json!({
        "id": "3C679366HH908993F", "status": status, "custom_id": "attempt-1", "invoice_id": "attempt-1",
        "amount": { "currency_code": "EUR", "value": "49.90" }, "final_capture": true,
        "supplementary_data": { "related_ids": { "order_id": "5O190127TN364715T" } },
    });
    if let Some(reason) = reason {
        capture["status_details"] = json!({ "reason": reason });
    }
    capture
}

fn report(told: &Value) -> Option<Report> {
    order(&read(told)).unwrap().report()
}

#[test]
fn each_status_of_an_order_has_its_report() {
    for (told_as, status) in [
        ("CREATED", Status::Pending),
        ("SAVED", Status::Pending),
        ("PAYER_ACTION_REQUIRED", Status::Pending),
        ("APPROVED", Status::Processing),
        ("VOIDED", Status::Declined),
    ] {
        let report = report(&told(told_as, &[])).unwrap();
        assert_eq!(
            (report.status, report.settlement, report.received.amount),
            (status, Settlement::Pending, 0),
            "{told_as}"
        );
    }
    assert_eq!(report(&told("COMPLETED", &[])), None);
    assert_eq!(order(&read(&told("FULFILLED", &[]))), None);
}

#[test]
fn each_status_of_a_capture_has_its_report() {
    use Settlement::{Confirmed, Failed, Pending};
    for (status, reason, expected, settlement, received) in [
        ("COMPLETED", None, Status::Completed, Confirmed, 4990),
        (
            "PENDING",
            Some("PENDING_REVIEW"),
            Status::Review,
            Pending,
            0,
        ),
        ("PENDING", Some("UNILATERAL"), Status::Review, Pending, 0),
        ("PENDING", None, Status::Review, Pending, 0),
        (
            "PENDING",
            Some("ECHECK"),
            Status::VerificationPending,
            Pending,
            0,
        ),
        ("DECLINED", None, Status::Declined, Failed, 0),
        ("FAILED", None, Status::Declined, Failed, 0),
    ] {
        let report = report(&told("COMPLETED", &[captured(status, reason)])).unwrap();
        assert_eq!(
            (report.status, report.settlement, report.received.amount),
            (expected, settlement, received),
            "{status} {reason:?}"
        );
        assert_eq!(report.reference, "5O190127TN364715T");
    }
    assert_eq!(
        order(&read(&told("COMPLETED", &[captured("ODD", None)]))),
        None
    );
}

#[test]
fn what_was_received_and_given_back_is_paypals_word() {
    let mut refunded = told("COMPLETED", &[captured("PARTIALLY_REFUNDED", None)]);
    let refund = |value: &str, status: &str| json!({ "id": "1JU08902781691411", "status": status, "amount": { "currency_code": "EUR", "value": value } });
    refunded["purchase_units"][0]["payments"]["refunds"] = json!([
        refund("9.90", "COMPLETED"),
        refund("10.00", "PENDING"),
        refund("1.00", "FAILED"),
    ]);
    let told_back = report(&refunded).unwrap();
    assert_eq!(
        (told_back.status, told_back.returned),
        (Status::Completed, 1990)
    );
    let mut wrong = captured("COMPLETED", None);
    wrong["amount"] = json!({ "currency_code": "USD", "value": "49.89" });
    let received = report(&told("COMPLETED", &[wrong])).unwrap().received;
    assert_eq!((received.amount, received.currency.as_str()), (4989, "USD"));
    // All of it given back, without a list of refunds.
    let whole = report(&told("COMPLETED", &[captured("REFUNDED", None)])).unwrap();
    assert_eq!((whole.received.amount, whole.returned), (4990, 4990));
}

#[test]
fn a_second_capture_adds_up_and_a_refused_one_does_not_count() {
    let two = told(
        "COMPLETED",
        &[captured("COMPLETED", None), captured("COMPLETED", None)],
    );
    assert_eq!(report(&two).unwrap().received.amount, 9980);
    let again = told(
        "COMPLETED",
        &[captured("DECLINED", None), captured("COMPLETED", None)],
    );
    let report = report(&again).unwrap();
    assert_eq!(
        (report.status, report.received.amount),
        (Status::Completed, 4990)
    );
}

#[test]
fn a_marked_order_is_declined_until_money_says_otherwise() {
    for (status, captures, expected) in [
        ("APPROVED", vec![], Status::Declined),
        ("PAYER_ACTION_REQUIRED", vec![], Status::Declined),
        (
            "COMPLETED",
            vec![captured("COMPLETED", None)],
            Status::Completed,
        ),
    ] {
        let mut marked = told(status, &captures);
        marked["purchase_units"][0]["custom_id"] = "attempt-1-closed".into();
        let marked = order(&read(&marked)).unwrap();
        assert_eq!(marked.attempt, "attempt-1");
        assert_eq!(marked.report().unwrap().status, expected, "{status}");
        assert_eq!(marked.is_over(), expected == Status::Declined);
    }
}

#[test]
fn an_order_that_lacks_anything_that_counts_is_none() {
    for field in ["id", "status", "purchase_units"] {
        let mut order_told = told("CREATED", &[]);
        order_told.as_object_mut().unwrap().remove(field);
        assert_eq!(order(&read(&order_told)), None, "{field}");
    }
    for field in ["custom_id", "amount"] {
        let mut order_told = told("CREATED", &[]);
        order_told["purchase_units"][0]
            .as_object_mut()
            .unwrap()
            .remove(field);
        assert_eq!(order(&read(&order_told)), None, "{field}");
    }
    let mut two = told("CREATED", &[]);
    let unit = two["purchase_units"][0].clone();
    two["purchase_units"].as_array_mut().unwrap().push(unit);
    assert_eq!(order(&read(&two)), None);
}

#[test]
fn a_lone_capture_names_its_order_by_id_or_link() {
    let mut capture = captured("COMPLETED", None);
    assert_eq!(
        lone(&read(&capture)).unwrap().order.as_deref(),
        Some("5O190127TN364715T")
    );
    capture
        .as_object_mut()
        .unwrap()
        .remove("supplementary_data");
    capture["links"] = json!([{ "rel": "up", "method": "GET", "href": "https://api.paypal.com/v2/checkout/orders/1W5313654M9708630" }]);
    assert_eq!(
        lone(&read(&capture)).unwrap().order.as_deref(),
        Some("1W5313654M9708630")
    );
    capture["links"] = json!([{ "rel": "up", "method": "GET", "href": "https://api.paypal.com/v2/checkout/orders/../x" }]);
    assert_eq!(lone(&read(&capture)).unwrap().order, None);
}
