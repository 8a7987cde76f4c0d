use super::*;
use crate::capture::lone;
use serde_json::{Value, json};

/// Converts a value to the module's JSON type.
pub(crate) fn read(value: &Value) -> Json {
    Json::parse(value.to_string().as_bytes()).unwrap()
}

/// An order as PayPal would return it, with these captures.
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

/// A capture as PayPal would return it.
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
    order(&read(told), None).unwrap().report()
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
    let odd = order(&read(&told("FULFILLED", &[])), None).unwrap();
    assert_eq!(odd.phase, Phase::Unknown);
    assert_eq!(odd.report().unwrap().status, Status::Pending);
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
        (
            "PENDING",
            Some("BUYER_COMPLAINT"),
            Status::Review,
            Pending,
            4990,
        ),
        ("PENDING", Some("CHARGEBACK"), Status::Review, Pending, 4990),
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
    let odd = order(&read(&told("COMPLETED", &[captured("ODD", None)])), None).unwrap();
    assert_eq!(odd.report().unwrap().status, Status::Review);
    assert_eq!(
        odd.unreadable,
        ["capture 3C679366HH908993F has the unknown status ODD"]
    );
}

fn refund(id: &str, value: &str, status: &str) -> Value {
    json!({ "id": id, "status": status, "amount": { "currency_code": "EUR", "value": value } })
}

/// Report about an order with a capture and these refunds.
fn refunded(status: &str, refunds: &[Value]) -> Report {
    let mut order = told("COMPLETED", &[captured(status, None)]);
    order["purchase_units"][0]["payments"]["refunds"] = json!(refunds);
    report(&order).unwrap()
}

#[test]
fn what_was_received_and_given_back_is_paypals_word() {
    let told_back = refunded(
        "PARTIALLY_REFUNDED",
        &[
            refund("1JU1", "9.90", "COMPLETED"),
            refund("1JU2", "10.00", "PENDING"),
            refund("1JU3", "1.00", "FAILED"),
            refund("1JU4", "2.00", "CANCELLED"),
        ],
    );
    assert_eq!(
        (told_back.status, told_back.given_back),
        (Status::Completed, 990)
    );
    let items = told_back.particulars.refunds.iter();
    let items: Vec<_> = items
        .map(|item| (item.id.as_str(), item.amount, item.state))
        .collect();
    let expected = [
        ("1JU1", 990, RefundState::Succeeded),
        ("1JU2", 1000, RefundState::Pending),
        ("1JU3", 100, RefundState::Failed),
        ("1JU4", 200, RefundState::Failed),
    ];
    assert_eq!(items, expected);
    let mut wrong = captured("COMPLETED", None);
    wrong["amount"] = json!({ "currency_code": "USD", "value": "49.89" });
    let received = report(&told("COMPLETED", &[wrong])).unwrap().received;
    assert_eq!((received.amount, received.currency.as_str()), (4989, "USD"));
}

#[test]
fn a_refund_is_told_by_its_own_invoice_and_one_of_the_dashboard_by_none() {
    let mut ours = refund("1JU1", "9.90", "COMPLETED");
    ours["invoice_id"] = json!("refund-1");
    // The dashboard's refund may contain the capture's `invoice_id`.
    let mut other = refund("1JU2", "10.00", "COMPLETED");
    other["invoice_id"] = json!("attempt-1");
    let told = refunded("PARTIALLY_REFUNDED", &[ours, other]);
    let orders = told.particulars.refunds.iter();
    let orders: Vec<_> = orders.map(|refund| refund.order_id.as_deref()).collect();
    assert_eq!(orders, [Some("refund-1"), None]);
}

#[test]
fn a_capture_given_back_as_a_whole_counts_where_the_list_does_not_tell() {
    let whole = report(&told("COMPLETED", &[captured("REFUNDED", None)])).unwrap();
    assert_eq!((whole.received.amount, whole.given_back), (4990, 4990));
    let charged_back = report(&told(
        "COMPLETED",
        &[captured("PENDING", Some("CHARGEBACK"))],
    ));
    assert_eq!(charged_back.unwrap().given_back, 4990);
    // A pending refund does not count as refunded, even if the capture's status does.
    let under_way = refunded("REFUNDED", &[refund("1JU1", "49.90", "PENDING")]);
    assert_eq!(under_way.given_back, 0);
    // A failed refund reduces the sum again.
    let failed = refunded("COMPLETED", &[refund("1JU1", "49.90", "FAILED")]);
    assert_eq!(failed.given_back, 0);
}

#[test]
fn an_order_tells_its_particulars() {
    let mut capture = captured("COMPLETED", None);
    capture["create_time"] = "2027-01-15T08:00:00Z".into();
    capture["seller_receivable_breakdown"] = json!({
        "gross_amount": { "currency_code": "EUR", "value": "49.90" },
        "paypal_fee": { "currency_code": "EUR", "value": "1.63" },
    });
    let paid = report(&told("COMPLETED", &[capture])).unwrap().particulars;
    assert_eq!(paid.provider_status.as_deref(), Some("COMPLETED"));
    assert_eq!(paid.references, ["3C679366HH908993F"]);
    assert_eq!(paid.fee.unwrap().amount, 163);
    assert_eq!(paid.captured_at, Some(1_800_000_000_000));
    assert_eq!(paid.instrument.as_deref(), Some("paypal"));
    let held = told("COMPLETED", &[captured("PENDING", Some("PENDING_REVIEW"))]);
    let held = report(&held).unwrap().particulars;
    assert_eq!(held.reason.as_deref(), Some("PENDING_REVIEW"));
    assert_eq!((held.captured_at, held.fee), (None, None));

    let mut approved = told("APPROVED", &[]);
    approved["create_time"] = "2027-01-15T08:00:00Z".into();
    approved["update_time"] = "2027-01-15T08:05:00Z".into();
    approved["payment_source"] = json!({ "card": { "brand": "VISA", "last_digits": "4242" } });
    let approved = report(&approved).unwrap().particulars;
    assert_eq!(approved.authorised_at, Some(1_800_000_300_000));
    assert_eq!(approved.capture_before, Some(1_800_010_800_000));
    assert_eq!(approved.instrument.as_deref(), Some("visa 4242"));
    let waiting = report(&told("CREATED", &[])).unwrap().particulars;
    assert_eq!(
        (waiting.authorised_at, waiting.capture_before),
        (None, None)
    );
}

#[test]
fn the_fee_of_two_captures_is_their_sum_where_both_tell_it() {
    let with_fee = |currency: &str| {
        let mut capture = captured("COMPLETED", None);
        let fee = json!({ "currency_code": currency, "value": "1.63" });
        capture["seller_receivable_breakdown"] = json!({ "paypal_fee": fee });
        capture
    };
    let fee = |captures: &[Value]| {
        report(&told("COMPLETED", captures))
            .unwrap()
            .particulars
            .fee
    };
    assert_eq!(
        fee(&[with_fee("EUR"), with_fee("EUR")]).unwrap().amount,
        326
    );
    assert_eq!(fee(&[with_fee("EUR"), with_fee("USD")]), None);
    assert_eq!(fee(&[with_fee("EUR"), captured("COMPLETED", None)]), None);
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
        let marked = order(&read(&marked), None).unwrap();
        assert_eq!(marked.attempt.as_deref(), Some("attempt-1"));
        assert_eq!(marked.report().unwrap().status, expected, "{status}");
        assert_eq!(marked.is_over(), expected == Status::Declined);
    }
}

#[test]
fn a_minimal_answer_is_read_as_far_as_it_goes() {
    let minimal = json!({ "id": "5O190127TN364715T", "status": "COMPLETED" });
    assert_eq!(order(&read(&minimal), None), None);
    let read_minimal = order(&read(&minimal), Some("EUR")).unwrap();
    assert!(!read_minimal.is_told_whole() && read_minimal.is_of("attempt-1"));
    let mut no_id = told("CREATED", &[]);
    no_id["id"] = json!(null);
    assert_eq!(order(&read(&no_id), None), None);
    for field in ["custom_id", "amount"] {
        let mut bare = told("COMPLETED", &[captured("COMPLETED", None)]);
        bare["purchase_units"][0][field] = json!(null);
        let report = order(&read(&bare), None).unwrap().report().unwrap();
        assert_eq!(report.received.amount, 4990, "{field}");
    }
    let mut two = told("CREATED", &[]);
    let unit = two["purchase_units"][0].clone();
    two["purchase_units"].as_array_mut().unwrap().push(unit);
    assert_eq!(order(&read(&two), None), None);
}

#[test]
fn an_entry_that_cannot_be_read_hides_no_other() {
    let odd = json!({ "id": "3C679366HH908993G", "status": "COMPLETED", "amount": null });
    let mut told = told("COMPLETED", &[odd, captured("COMPLETED", None)]);
    let unit = &mut told["purchase_units"][0];
    unit["amount"] = json!(null);
    unit["payments"]["refunds"] = json!([
        { "id": "1JU1", "status": "COMPLETED" },
        refund("1JU2", "9.90", "FROZEN"),
        refund("1JU3", "10.00", "COMPLETED"),
    ]);
    let order = order(&read(&told), None).unwrap();
    assert_eq!(
        order.unreadable,
        [
            "capture 3C679366HH908993G cannot be read",
            "refund 1JU1 cannot be read",
            "refund 1JU2 has the unknown status FROZEN"
        ]
    );
    let report = order.report().unwrap();
    assert_eq!((report.received.amount, report.given_back), (4990, 1000));
    assert_eq!(report.particulars.refunds[0].state, RefundState::Pending);
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
