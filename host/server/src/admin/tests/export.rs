//! Export of captures, refunds and disputes as CSV.

use std::time::Duration;

use axum::body::to_bytes;
use kassette_domain::attempt::Choice;
use kassette_domain::id::{AttemptId, Digest, PaymentId, Slot};
use kassette_domain::lifecycle::{StartResult, Step, Via};
use kassette_domain::method::MethodId;
use kassette_domain::money::Minor;
use kassette_domain::provider::{
    Dispute, DisputeKind, DisputeState, Particulars, PayerAction, ProviderRefund,
    ProviderSettlement, ProviderStatus, RefundState, Report,
};
use kassette_domain::time::Time;
use kassette_store::{About, Stepped};

use super::payments::create;
use super::*;

async fn step(world: &World, payment: &str, step: Step) {
    let about = About::Payment(PaymentId::parse(payment).unwrap());
    let now = world.clock.now();
    let stepped = world.gateway.store().step(about, step, None, now).await;
    assert!(matches!(stepped, Ok(Stepped::Done { .. })), "{stepped:?}");
}

/// Adds an attempt that received the payment's ten dollars; returns its id.
async fn pay(world: &World, payment: &str, number: u8, particulars: Particulars) -> String {
    let (now, attempt) = (world.clock.now(), AttemptId::from_bytes([number; 16]));
    let choice = Choice {
        attempt,
        return_token: Secret::new(format!("return-{number}")),
        account: AccountId::parse("first-test").unwrap(),
        slot: Slot::parse("provider.sandbox").unwrap(),
        digest: Digest::hash(b"module"),
        method: MethodId::Ideal,
        expires_at: now.after(Duration::from_secs(600)),
        busy_until: now.after(Duration::from_secs(30)),
        payer: Default::default(),
        decision: None,
    };
    step(world, payment, Step::Open(Box::new(choice))).await;
    let reference = format!("vendor,{number}");
    let open = Step::Started {
        held: None,
        attempt,
        result: StartResult::Open {
            reference: Some(reference.clone()),
            action: PayerAction::Redirect("https://pay.example".into()),
            until: None,
        },
        next: None,
    };
    step(world, payment, open).await;
    let mut report = Report {
        reference,
        status: ProviderStatus::Completed,
        settlement: ProviderSettlement::Confirmed,
        received: Minor(1000),
        currency: "USD".into(),
        returned: Minor(0),
        detail: String::new(),
        particulars: Particulars::default(),
    };
    for particulars in [Particulars::default(), particulars] {
        report.particulars = particulars;
        let news = Step::Report {
            attempt,
            report: report.clone(),
            via: Via::Callback,
            asked: None,
        };
        step(world, payment, news).await;
    }
    attempt.to_string()
}

/// The lines of an export.
async fn export(world: &World, query: &str) -> Vec<String> {
    let path = format!("/payments/export?{query}");
    let asked = request(Some(world.viewer()), Method::GET, &path, None);
    let response = world.send(asked).await;
    assert_eq!(response.status(), StatusCode::OK);
    let media_type = response.headers()[CONTENT_TYPE].to_str().unwrap();
    assert!(media_type.starts_with("text/csv"), "{media_type}");
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    let lines = text.strip_suffix("\r\n").unwrap().split("\r\n");
    lines.map(str::to_owned).collect()
}

#[tokio::test]
async fn every_capture_refund_and_dispute_has_a_line_with_what_moved() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let refund = |id: &str, amount, state| ProviderRefund {
        id: id.into(),
        order: None,
        amount: Minor(amount),
        state,
        paid_out: None,
        at: None,
    };
    let dispute = |id: &str, amount, state| Dispute {
        id: id.into(),
        amount: Minor(amount),
        state,
        reason: None,
        respond_by: None,
        kind: DisputeKind::Dispute,
        withdrawn: match state {
            DisputeState::Lost => Minor(amount),
            DisputeState::Open | DisputeState::Won => Minor(0),
        },
        ends_by_refund: false,
        listed_as_refund: false,
        at: None,
    };
    let told = Particulars {
        fee: Some((Minor(35), "EUR".into())),
        captured_at: Some(Time::from_secs(1_800_000_000)),
        refunds: vec![
            refund("re_1", 300, RefundState::Succeeded),
            refund("re_2", 200, RefundState::Failed),
        ],
        disputes: vec![
            dispute("dp_1", 100, DisputeState::Lost),
            dispute("dp_2", 50, DisputeState::Open),
        ],
        ..Particulars::default()
    };
    let id = create(&world, merchant, "an \"odd\" order").await;
    let attempt = pay(&world, &id, 1, told).await;
    let lines = export(&world, "").await;
    assert_eq!(
        lines[0],
        "type,state,at,amount,full_amount,currency,fee,fee_currency,payment_id,merchant_id,\
         order_id,environment,attempt_id,provider_id,payment_method,reference,id,refund_id,short_amount,\
         short_currency"
    );
    let rest = format!(
        "{id},{merchant},\"an \"\"odd\"\" order\",test,{attempt},first-test,ideal,\"vendor,1\","
    );
    assert_eq!(
        lines[1],
        format!("capture,captured,2027-01-15T08:00:00.000Z,10.00,10.00,USD,0.35,EUR,{rest},,,")
    );
    let shown = world.get(&format!("/payments/{id}")).await;
    let shown = &shown.is(200)["attempts"][0];
    assert_eq!(
        (&shown["received"], &shown["returned"]),
        (&json!("10.00"), &json!("4.00"))
    );
    let refunds = [0, 1].map(|i| shown["refunds"][i].clone());
    let [first, second] = refunds
        .each_ref()
        .map(|refund| refund["refund_id"].as_str().unwrap());
    let at = refunds[0]["at"].as_str().unwrap();
    let expected = [
        format!("refund,succeeded,{at},3.00,3.00,USD,,,{rest}re_1,{first},,"),
        format!("refund,failed,{at},0.00,2.00,USD,,,{rest}re_2,{second},,"),
        format!("dispute,lost,{at},1.00,1.00,USD,,,{rest}dp_1,,,"),
        format!("dispute,open,{at},0.00,0.50,USD,,,{rest}dp_2,,,"),
    ];
    assert_eq!(lines[2..], expected);
    // Another payment without movements.
    let idle = create(&world, merchant, "=1+1").await;
    assert_eq!(export(&world, "").await.len(), lines.len());
    let all = export(&world, "all=true").await;
    let row = all.iter().find(|line| line.contains(&idle)).unwrap();
    assert!(
        row.starts_with("payment,created,") && row.contains(",'=1+1,"),
        "{row}"
    );
    // The same as JSON lines.
    let path = "/payments/export?format=jsonl";
    let answer = world
        .send(request(Some(&world.viewer), Method::GET, path, None))
        .await;
    let bytes = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(text.lines().count(), 5, "{text}");
    assert_eq!(
        (
            &first["type"],
            &first["amount"],
            &first["order_id"],
            &first["id"]
        ),
        (
            &json!("capture"),
            &json!("10.00"),
            &json!("an \"odd\" order"),
            &Value::Null
        )
    );
}

#[tokio::test]
async fn an_export_goes_over_many_payments_of_a_period_and_of_no_other() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let mut captured = Vec::new();
    for number in 0..120_u8 {
        world.clock.advance(Duration::from_millis(5));
        let id = create(&world, merchant, &format!("order-{number}")).await;
        if number % 40 == 0 {
            pay(&world, &id, number, Particulars::default()).await;
            captured.push(id);
        }
    }
    captured.reverse();
    let ids = async |query: &str| -> Vec<String> {
        let lines = export(&world, query).await;
        let id = |line: &String| line.split(',').nth(8).unwrap().to_owned();
        lines[1..].iter().map(id).collect()
    };
    assert_eq!(ids("").await, captured);
    let shown = world.get(&format!("/payments/{}", captured[1])).await;
    let middle = shown.is(200)["payment"]["created_at"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(ids(&format!("since={middle}")).await, captured[..2]);
    assert_eq!(ids(&format!("until={middle}")).await, captured[2..]);
    assert!(ids("environment=live").await.is_empty());
    let other = world.merchant(false).await;
    assert!(ids(&format!("merchant_id={other}")).await.is_empty());
    for wrong in [
        "since=x",
        "until=2030-01-01",
        "limit=5",
        "merchant_id=x",
        "format=x",
    ] {
        let path = format!("/payments/export?{wrong}");
        world.get(&path).await.refused(422);
    }
}
