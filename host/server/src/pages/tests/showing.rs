//! Content and links of each page.

use super::*;
use kassette_domain::brand::Brand;
use kassette_domain::extras::Description;
use kassette_domain::money::Minor;
use kassette_domain::provider::{ProviderRefund, ProviderStatus, RefundState};
use kassette_gateway::start::{NotAvailable, NotStartable};

#[tokio::test]
async fn the_choice_names_methods_providers_and_notes() {
    let page = shop(view(Status::Created, vec![])).checkout().await;
    assert_eq!(page.status, StatusCode::OK);
    page.says(r#"name="payment_method" value="credit_card""#);
    page.says(r#"name="payment_method" value="ideal""#);
    page.says(r#"name="seen.ideal" value="sandbox-test""#);
    page.says("iDEAL | Wero");
    page.says("Your bank asks you to confirm in its app.");
    page.says(r#"href="https://sandbox.example/verify""#);
    page.says("Demo shop");
    page.says(r#"<p class="amount">€49.90</p>"#);
    page.says("You pay \u{2068}Demo shop\u{2069}");
    page.says("<bdi>A-7</bdi>");
    page.says("<strong>TEST</strong>");
    // This is also true for a method with a link or code on our own page.
    page.says("Nothing is charged when you choose.");
    page.omits("secure page");
}

#[tokio::test]
async fn a_method_is_shown_in_the_pages_language_with_its_own_drawing() {
    let shop = shop(view(Status::Created, vec![]));
    let english = shop.checkout().await;
    english.omits("übersetzt");
    english.says(r#"<path d="M4 12h16"/><path d="M4 12h1z" fill="currentColor" stroke="none"/>"#);
    let german = shop.get_in("de", &format!("/checkout/{TOKEN}")).await;
    german.says("iDEAL | Wero, übersetzt");
    german.says("Bestätigen Sie &#60;dort&#62;.");
}

#[tokio::test]
async fn the_merchants_description_stands_below_the_amount() {
    let mut described = view(Status::Created, vec![]);
    described.description = Description::parse("Two <b>tickets</b>").ok();
    let page = shop(described).checkout().await;
    page.says(r#"<p class="about"><bdi>Two &#60;b&#62;tickets&#60;/b&#62;</bdi></p>"#);
    let plain = shop(view(Status::Created, vec![])).checkout().await;
    plain.omits(r#"class="about""#);
}

#[tokio::test]
async fn a_live_payment_carries_no_test_banner() {
    let mut live = view(Status::Created, vec![]);
    live.aggregate.payment.environment = Environment::Live;
    shop(live).checkout().await.omits("TEST");
}

#[tokio::test]
async fn a_merchants_pages_have_its_colour_its_logo_and_its_support_address() {
    let png = b"\x89PNG pixels".to_vec();
    let mut own = view(Status::Created, vec![]);
    Arc::make_mut(&mut own.merchant).brand = Brand {
        colour: Some("#ffcc00".parse().unwrap()),
        logo: Some(png.clone().try_into().unwrap()),
        shows_provider: true,
        support: "help%?@shop.example".parse().ok(),
    };
    let digest = own.merchant.brand.logo.as_ref().unwrap().digest();
    let shop = shop(own);
    let page = shop.checkout().await;
    page.says(r#"<link rel="stylesheet" href="/assets/colour-ffcc00.css">"#);
    let id = shop.backend.view.merchant.id;
    let logo = format!("/logos/{id}/{digest}.png");
    page.says(&format!(r#"<img class="logo" src="{logo}" alt="">"#));
    page.says("via \u{2068}Sandbox\u{2069}");
    page.says(
        r#"<a href="mailto:help%25%3F@shop.example" rel="noreferrer">help%?@shop.example</a>"#,
    );
    let sheet = shop.get("/assets/colour-ffcc00.css").await;
    assert_eq!(
        (sheet.status, sheet.header("content-type")),
        (StatusCode::OK, "text/css; charset=utf-8")
    );
    sheet.says("--panel: #ffcc00;");
    sheet.says("--on-panel: #000000;");
    for wrong in ["colour-ffcc0.css", "colour-ffcc00", "colour-red.css"] {
        let sheet = shop.get(&format!("/assets/{wrong}")).await;
        assert_eq!(sheet.status, StatusCode::NOT_FOUND, "{wrong}");
    }
    let request = Request::get(&logo).body(Body::empty()).unwrap();
    let answer = shop.router.clone().oneshot(request).await.unwrap();
    assert_eq!(answer.headers()["content-type"], "image/png");
    assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
    let kept = answer.headers()["cache-control"].to_str().unwrap();
    assert!(kept.starts_with("private, "), "{kept}");
    assert_eq!(to_bytes(answer.into_body(), 99).await.unwrap(), png);
    let other = format!("/logos/{id}/{}.png", "0".repeat(64));
    assert_eq!(shop.get(&other).await.status, StatusCode::NOT_FOUND);
    for unknown in ["unknown", "9999"] {
        let unknown = format!("/logos/{unknown}/{digest}.png");
        assert_eq!(shop.get(&unknown).await.status, StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn a_merchant_without_a_brand_has_our_colours_and_its_initial() {
    let page = shop(view(Status::Created, vec![])).checkout().await;
    page.omits("/assets/colour-");
    page.omits("<img");
    page.says(r#"<span class="initial" aria-hidden="true">D</span>"#);
    page.omits("via \u{2068}");
    page.omits(r#"class="support""#);
}

#[tokio::test]
async fn what_others_wrote_is_escaped() {
    let mut hostile = view(Status::Created, vec![]);
    let evil = r#""><script>alert(1)</script>'&"#;
    Arc::make_mut(&mut hostile.merchant).name = evil.into();
    hostile.aggregate.payment.order_id = OrderId::parse(evil).unwrap();
    Arc::make_mut(&mut hostile.offers[0].description).label = evil.into();
    hostile.offers[0].providers[0].name = evil.into();
    hostile.offers[0].providers[0].verification_note = Some(evil.into());
    hostile.offers[0].providers[0].verification_url = Some("javascript:alert(1)".into());
    let page = shop(hostile).checkout().await;
    page.omits("<script>");
    page.omits("javascript:");
    page.says("&#60;script&#62;");
}

#[tokio::test]
async fn a_choice_starts_and_leads_to_our_own_page_first() {
    let redirecting = |view: &CheckoutView| {
        let mut aggregate = view.aggregate.clone();
        aggregate.attempts = vec![attempt(fixtures::redirect())];
        Ok(StartedPayment {
            attempt: aggregate.attempts[0].clone(),
            aggregate,
            redirect_url: "https://pay.vendor.example/s/1".into(),
        })
    };
    let shop = shop_at(view(Status::Created, vec![]), redirecting, ORIGIN);
    let body = "payment_method=ideal&seen.ideal=sandbox-test&seen.credit_card=x&stray=1";
    let answer = shop.post("choose", body).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    assert_eq!(answer.header("location"), format!("/checkout/{TOKEN}/go"));
    assert_eq!(shop.asked(), ["start ideal sandbox-test"]);
}

#[tokio::test]
async fn a_provider_learns_where_the_payer_is() {
    let shop = shop(view(Status::Created, vec![]));
    let mut request = Request::post(format!("/checkout/{TOKEN}/choose"))
        .header("sec-fetch-site", "same-origin")
        .header("x-forwarded-for", "198.51.100.1")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from("payment_method=ideal"))
        .unwrap();
    let peer = std::net::SocketAddr::from(([203, 0, 113, 9], 4000));
    request
        .extensions_mut()
        .insert(axum::extract::ConnectInfo(peer));
    shop.send(request).await;
    assert_eq!(shop.asked(), ["start ideal - from 203.0.113.9"]);
}

#[tokio::test]
async fn the_page_to_the_provider_tells_nobody_where_it_stood() {
    let page = shop(pending(fixtures::redirect()))
        .get(&format!("/checkout/{TOKEN}/go"))
        .await;
    assert_eq!(page.status, StatusCode::OK);
    assert_eq!(page.header("referrer-policy"), "no-referrer");
    page.says(
        r#"<meta http-equiv="refresh" content="0; url=https://pay.vendor.example/s/1?a=b&#38;c=d">"#,
    );
    page.says(r#"href="https://pay.vendor.example/s/1?a=b&#38;c=d""#);
}

#[tokio::test]
async fn nobody_is_sent_to_an_address_that_is_no_plain_page() {
    for target in ["javascript:alert(1)", "http://pay.vendor.example/"] {
        let shop = shop(pending(PayerAction::Redirect(target.into())));
        let page = shop.get(&format!("/checkout/{TOKEN}/go")).await;
        assert_eq!(page.status, StatusCode::INTERNAL_SERVER_ERROR);
        page.omits(target);
    }
}

#[tokio::test]
async fn other_pages_keep_their_address_from_others() {
    let page = shop(view(Status::Created, vec![])).checkout().await;
    assert_eq!(page.header("referrer-policy"), "same-origin");
}

#[tokio::test]
async fn the_method_that_the_merchant_named_stands_first_and_selected() {
    let plain = shop(view(Status::Created, vec![])).checkout().await;
    plain.omits(" checked");
    let mut named = view(Status::Created, vec![]);
    let last = named.offers.last().unwrap().method;
    assert_ne!(named.offers[0].method, last);
    named.aggregate.payment.requested_method = Some(last);
    let page = shop(named.clone()).checkout().await;
    let button = format!(r#"name="payment_method" value="{last}" required checked"#);
    page.says(&button);
    let first = page.html.find(r#"name="payment_method""#).unwrap();
    assert!(page.html[first..].starts_with(&button), "{}", page.html);
    // A preselected method that is unavailable changes nothing.
    named.aggregate.payment.requested_method = MethodId::parse("venmo");
    shop(named).checkout().await.omits(" checked");
}

#[tokio::test]
async fn a_tap_that_a_vendor_keeps_waiting_is_followed_by_a_page_that_waits() {
    let starting = fixtures::starting();
    let started = view(Status::Pending, vec![starting]);
    let shop = shop_that_takes(Duration::from_secs(3600), started, declined, ORIGIN);
    let tapped = shop.post("choose", "payment_method=ideal").await;
    let page = format!("/checkout/{TOKEN}");
    let waiting = format!("{page}?wait");
    assert_eq!(tapped.status, StatusCode::SEE_OTHER);
    assert!(tapped.header("location").ends_with(&waiting));
    let shown = shop.get(&waiting).await;
    shown.says("Taking you to \u{2068}Sandbox\u{2069} …");
    shown.omits("has not answered yet");
    assert_eq!(shown.header("refresh"), format!("2; url={page}/go"));
    *shop.backend.now.lock().unwrap() = Time::from_secs(NOW.as_secs() + 10);
    let longer = shop.get(&waiting).await;
    longer.says("has not answered yet");
    let on = shop.get(&format!("{page}/go")).await;
    assert!(on.header("location").ends_with(&waiting), "it still waits");
    let other = shop.checkout().await;
    assert_eq!(other.header("refresh"), format!("5; url={page}"));
}

#[tokio::test]
async fn answers_that_a_vendor_keeps_waiting_are_followed_by_a_page_that_waits() {
    let shop = shop_that_takes(
        Duration::from_secs(3600),
        pending(asking()),
        declined,
        ORIGIN,
    );
    let answered = shop.post("answer", "email=ada%40example.org").await;
    assert_eq!(answered.status, StatusCode::SEE_OTHER);
    assert!(answered.header("location").ends_with("?wait"));
    assert_eq!(shop.asked(), ["answer email=ada@example.org"]);
}

#[tokio::test]
async fn a_way_that_a_vendor_is_slow_to_close_is_followed_until_it_is_closed_or_not() {
    let page = format!("/checkout/{TOKEN}");
    let leaving = format!("{page}?leave");
    let until = Time::from_secs(NOW.as_secs() + 60);
    let closing = fixtures::closing(attempt(fixtures::redirect()), until);
    let long = Duration::from_secs(3600);
    let closes = view(Status::Pending, vec![closing]);
    let shop = shop_that_takes(long, closes, declined, ORIGIN);
    let tapped = shop.post("abandon", "").await;
    assert_eq!(tapped.status, StatusCode::SEE_OTHER);
    assert_eq!(tapped.header("location"), leaving);
    for path in [leaving.clone(), page.clone(), format!("{page}?wait")] {
        let shown = shop.get(&path).await;
        shown.says("We close the payment with \u{2068}Sandbox\u{2069} first");
        shown.omits("/go\"");
        assert_eq!(shown.header("refresh"), format!("2; url={path}"));
    }
    let mut closing = fixtures::closing(attempt(fixtures::redirect()), NOW);
    let open = self::shop(view(Status::Pending, vec![closing.clone()]));
    let open = open.get(&leaving).await;
    assert_eq!(open.status, StatusCode::OK);
    open.says("could not be closed for certain");
    open.says("/abandon\"");
    fixtures::put(&mut closing, AttemptState::Closed);
    let closed = self::shop(view(Status::Created, vec![closing]));
    let on = closed.get(&leaving).await;
    assert_eq!(on.status, StatusCode::SEE_OTHER);
    assert_eq!(on.header("location"), page);
}

#[tokio::test]
async fn a_start_that_ended_behind_the_page_that_waits_says_how() {
    for (state, words) in [
        (AttemptState::Declined, "declined"),
        (AttemptState::Unavailable, "does not answer right now"),
    ] {
        let mut ended = attempt(fixtures::redirect());
        fixtures::put(&mut ended, state);
        let shop = shop(view(Status::Created, vec![ended]));
        let page = shop.get(&format!("/checkout/{TOKEN}/go")).await;
        assert_eq!(page.status, StatusCode::OK);
        page.says(r#"role="alert""#);
        page.says(words);
        page.says(r#"value="credit_card""#);
    }
}

#[tokio::test]
async fn no_notice_says_that_no_money_was_taken_where_another_attempt_took_some() {
    let mut surplus = attempt(fixtures::redirect());
    fixtures::put(&mut surplus, AttemptState::Surplus);
    let mut declined = attempt(fixtures::redirect());
    fixtures::put(&mut declined, AttemptState::Declined);
    let shop = shop(view(Status::Created, vec![surplus, declined]));
    for page in [
        shop.get(&format!("/checkout/{TOKEN}/go")).await,
        shop.post("choose", "payment_method=ideal").await,
    ] {
        page.says(r#"role="alert""#);
        page.says("This is where your payment stands now");
        page.omits("o money was taken");
    }
}

#[tokio::test]
async fn a_refused_start_shows_why_and_what_else_can_be_chosen() {
    let cases: [(Starting, u16, &str); 5] = [
        (|_| Err(StartError::Declined), 422, "declined"),
        (
            |_| Err(NotAvailable::Method.into()),
            422,
            "no longer available",
        ),
        (
            |_| Err(NotStartable::Status.into()),
            409,
            "no longer possible",
        ),
        (
            |_| Err(StartError::NotLiveApproved),
            403,
            "cannot be started",
        ),
        (
            |_| {
                Err(StartError::Unsettled {
                    retry_after: Duration::from_secs(2),
                })
            },
            409,
            "not answered yet",
        ),
    ];
    for (start, status, words) in cases {
        let shop = shop_at(ended(AttemptState::Declined), start, ORIGIN);
        let page = shop.post("choose", "payment_method=ideal").await;
        assert_eq!(page.status.as_u16(), status);
        page.says(r#"role="alert""#);
        page.says(words);
        page.says(r#"value="credit_card""#);
    }
}

#[tokio::test]
async fn another_provider_than_the_payer_saw_is_asked_about() {
    let start: Starting = |_| {
        Err(StartError::AskAgain(
            AccountId::parse("sandbox-test").unwrap(),
        ))
    };
    let shop = shop_at(view(Status::Created, vec![]), start, ORIGIN);
    let page = shop.post("choose", "payment_method=ideal").await;
    assert_eq!(page.status, StatusCode::OK);
    page.says("Your bank asks you to confirm in its app.");
    page.says(r#"name="seen.ideal" value="sandbox-test""#);
    page.says(r#"name="payment_method" value="ideal""#);
    page.omits("credit_card");
}

#[tokio::test]
async fn what_is_no_method_starts_nothing() {
    let shop = shop(view(Status::Created, vec![]));
    for body in ["", "payment_method=gold", "payment_method="] {
        let page = shop.post("choose", body).await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
        page.says("choose one of the ways to pay");
    }
    assert!(shop.asked().is_empty());
}

#[tokio::test]
async fn looking_at_pages_asks_the_backend_for_no_change() {
    for action in [fixtures::redirect(), asking(), showing(), posting()] {
        let shop = shop(pending(action));
        for path in ["", "/go", "/choose", "/answer", "/abandon", "?hold"] {
            shop.get(&format!("/checkout/{TOKEN}{path}")).await;
        }
        assert!(shop.asked().is_empty());
    }
}

#[tokio::test]
async fn questions_are_asked_with_the_right_keyboard_and_answered() {
    let shop = shop(pending(asking()));
    let page = shop.checkout().await;
    page.says(r#"type="email" autocomplete="email" inputmode="email""#);
    page.says(r#"type="tel" autocomplete="tel""#);
    page.says("Your &#60;email&#62;");
    let wrong = shop.post("answer", "email=nobody&phone=12").await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    wrong.says(r#"value="nobody" required aria-invalid="true""#);
    assert!(shop.asked().is_empty());
    shop.post("answer", "email=ada%40example.org&phone=&more=1")
        .await;
    assert_eq!(shop.asked(), ["answer email=ada@example.org"]);
}

#[tokio::test]
async fn instructions_show_code_details_and_link() {
    let page = shop(pending(showing())).checkout().await;
    page.says(r#"role="img" aria-label="QR code"#);
    page.says(r#"<bdi class="copy">bc1q</bdi>"#);
    page.says(r#"href="bitcoin:bc1q""#);
    page.says(&format!(r#"href="/return/{RETURN_TOKEN}""#));
    page.says("<h1>Pay with \u{2068}iDEAL\u{2069}</h1>");
    let link = page.html.find(r#"href="bitcoin:bc1q""#).unwrap();
    let code = page.html.find(r#"class="qr""#).unwrap();
    assert!(link < code, "a phone cannot scan its own screen");
    // The page's script follows the payment. Without it the page reloads, as rarely as possible, so that the
    // selection is preserved.
    assert_eq!(page.header("refresh"), "");
    page.says(&format!(
        r#"<noscript><meta http-equiv="refresh" content="20; url=/checkout/{TOKEN}?wait"></noscript>"#
    ));
    page.says(&format!(
        r#" data-status="/checkout/{TOKEN}/status" data-version="{}" data-next="/checkout/{TOKEN}?wait""#,
        version(&pending(showing())).await
    ));
}

/// The response to the page's script.
async fn version(view: &CheckoutView) -> String {
    let answer = shop(view.clone())
        .get(&format!("/checkout/{TOKEN}/status"))
        .await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.header("cache-control"), "no-store");
    let body: serde_json::Value = serde_json::from_str(&answer.html).unwrap();
    assert_eq!(body.as_object().unwrap().len(), 1, "nothing else is told");
    body["version"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_script_is_told_of_what_the_page_would_show_and_of_nothing_else() {
    let shown = pending(showing());
    let same = version(&shown).await;
    let mut asked = shown.clone();
    asked.aggregate.attempts[0].detail = "asked again".into();
    asked.aggregate.payment.email = None;
    assert_eq!(version(&asked).await, same);
    let mut lapsed = shown.clone();
    fixtures::set_until(&mut lapsed.aggregate.attempts[0], NOW);
    let mut other = shown.clone();
    other.aggregate.attempts = vec![attempt(posting())];
    let paid = view(Status::Completed, vec![attempt(showing())]);
    for changed in [lapsed, other, paid, ended(AttemptState::Declined)] {
        assert_ne!(version(&changed).await, same);
    }
    let unknown = shop(shown).get("/checkout/nobody/status").await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_decline_says_why_and_what_can_be_done_about_it() {
    for (reason, title, advice) in [
        (
            "insufficient_funds",
            "not enough money was available",
            "ask your bank about your balance",
        ),
        ("expired_card", "the card has expired", "check the date"),
        (
            "authentication_required",
            "could not confirm that it is you",
            "your bank’s app",
        ),
        (
            "card_velocity_exceeded",
            "the payment was declined",
            "another",
        ),
        ("stolen_card", "no reason was given", "Use another card"),
        ("fraudulent", "no reason was given", "Use another card"),
    ] {
        let mut view = ended(AttemptState::Declined);
        view.aggregate.attempts[0].particulars.reason = Some(reason.into());
        let shop = shop(view);
        let page = shop.checkout().await;
        page.says(r#"<div class="notice bad" role="alert">"#);
        assert!(
            page.html.to_lowercase().contains(&title.to_lowercase()),
            "{reason}: {}",
            page.html
        );
        page.says("No money was taken for this try.");
        page.says(advice);
        page.says("How would you like to pay now?");
        page.says("<bdi>Your last try was declined.</bdi>");
        page.omits("fraud");
        page.omits("stolen");
        let returned = shop.returned().await;
        assert!(
            returned.html.to_lowercase().contains(&title.to_lowercase()),
            "{reason}"
        );
    }
    let cancelled = shop(ended(AttemptState::Cancelled)).checkout().await;
    cancelled.says("You cancelled the payment.");
    cancelled.omits("Your last try was declined.");
    let declined = ended(AttemptState::Declined).aggregate.attempts;
    for (tries, left) in [(3, false), (4, true)] {
        let attempts = declined.iter().cycle().take(tries).cloned().collect();
        let page = shop(view(Status::Created, attempts)).checkout().await;
        assert_eq!(page.html.contains("One try is left"), left, "{tries}");
    }
}

#[tokio::test]
async fn a_provider_that_does_not_answer_is_named_and_not_offered_for_a_minute() {
    let mut down = ended(AttemptState::Unavailable);
    down.offers[0].providers[0].id = AccountId::parse("other-test").unwrap();
    let shop = shop(down);
    let page = shop.checkout().await;
    page.says("\u{2068}Sandbox\u{2069} does not answer right now.");
    page.says("was not started there, and no money was taken.");
    page.says("Not offered for about a minute, because \u{2068}Sandbox\u{2069} does not answer.");
    page.says(r#"value="ideal" required disabled>"#);
    let (offered, last) = (
        page.html.find(r#"value="credit_card""#),
        page.html.find(r#"value="ideal""#),
    );
    assert!(offered < last, "it stands last");
    *shop.backend.now.lock().unwrap() = Time::from_secs(NOW.as_secs() + 60);
    let later = shop.checkout().await;
    later.omits("does not answer");
    later.omits(" disabled");
}

#[tokio::test]
async fn a_single_method_is_a_button_and_no_list() {
    let mut single = view(Status::Created, vec![]);
    single.offers.truncate(1);
    let page = shop(single).checkout().await;
    page.says("<h1>Pay with \u{2068}Credit card\u{2069}</h1>");
    page.says(r#"<button class="primary" type="submit" name="payment_method" value="credit_card""#);
    page.omits(r#"type="radio""#);
}

#[tokio::test]
async fn a_paid_page_is_a_receipt_with_what_was_refunded() {
    let mut own = attempt(fixtures::redirect());
    fixtures::put(&mut own, AttemptState::Captured);
    own.vendor = Some(fixtures::facts(ProviderStatus::Completed, Minor(4990)));
    own.references = vec!["tr_1".into()];
    let refund = |id: &str, amount, state| ProviderRefund {
        id: id.into(),
        order: None,
        amount: Minor(amount),
        state,
        paid_out: None,
        at: Some(NOW),
    };
    let refunds = [
        refund("re_1", 1000, RefundState::Succeeded),
        refund("re_2", 990, RefundState::Pending),
    ];
    let reported = kassette_domain::funds::ReportedFunds {
        refunds: &refunds,
        ..fixtures::captured(None)
    };
    let mut partly = view(
        Status::Completed,
        vec![fixtures::merged(own.clone(), reported)],
    );
    let mut paid = view(Status::Completed, vec![own]);
    for view in [&mut partly, &mut paid] {
        view.aggregate.payment.completed_at = Some(NOW);
    }
    let page = shop(paid).checkout().await;
    page.says(r#"data-zone>2026-11-21 09:30 UTC</time>"#);
    page.says("\u{2068}iDEAL\u{2069}, with \u{2068}Sandbox\u{2069}");
    page.says("<bdi>tr_1</bdi>");
    page.says(r#"<div class="total"><dt>Amount paid</dt><dd>€49.90</dd></div>"#);
    page.omits("Refunded");
    let page = shop(partly).checkout().await;
    page.says("\u{2068}€10.00\u{2069} of it was refunded.");
    page.says("<dt>Refunded, \u{2068}2026-11-21\u{2069}</dt><dd>−€10.00</dd>");
    page.says(r#"<div class="total"><dt>Paid after refunds</dt><dd>€39.90</dd></div>"#);
    page.omits("−€9.90");
}

#[tokio::test]
async fn instructions_say_how_long_they_are_good() {
    for (seconds, left) in [
        (59, "1\u{a0}min"),
        (60, "1\u{a0}min"),
        (61, "2\u{a0}min"),
        (3600, "60\u{a0}min"),
        (3 * 3600, "60\u{a0}min"),
    ] {
        let mut open = attempt(showing());
        fixtures::set_until(&mut open, Time::from_secs(NOW.as_secs() + seconds));
        let page = shop(view(Status::Pending, vec![open])).checkout().await;
        page.says(&format!("Time left to pay: \u{2068}{left}\u{2069}"));
    }
    let mut open = attempt(showing());
    open.expires_at = Time::from_secs(NOW.as_secs() + 5 * 3600 + 60);
    let page = shop(view(Status::Pending, vec![open])).checkout().await;
    page.says("5\u{a0}h 1\u{a0}min");
    page.says(r#"<time datetime="2026-11-21T"#);
    let words = PayerAction::Show(Instructions {
        text: "You have paid.".into(),
        details: vec![],
        qr: None,
        link: None,
    });
    let page = shop(pending(words)).checkout().await;
    page.omits("Time left");
    page.says("<h1>Waiting for \u{2068}Sandbox\u{2069}</h1>");
}

#[tokio::test]
async fn an_open_payment_says_that_its_last_try_was_declined() {
    for (reason, is_told) in [
        (None, false),
        (Some("payment_cancelled"), false),
        (Some("insufficient_funds"), true),
    ] {
        let mut open = attempt(fixtures::redirect());
        open.particulars.reason = reason.map(str::to_owned);
        let page = shop(view(Status::Pending, vec![open])).checkout().await;
        match is_told {
            true => page.says("was declined. You can try again there."),
            false => page.omits("declined"),
        }
    }
}

#[tokio::test]
async fn who_waits_on_our_page_is_led_to_the_shop_once_paid() {
    let shop = shop(view(Status::Completed, vec![attempt(showing())]));
    let waited = shop.get(&format!("/checkout/{TOKEN}?wait")).await;
    assert_eq!(waited.header("refresh"), format!("10; url={BACK}"));
    waited.says("In a few seconds you return to");
    waited.says(&format!(
        r#"href="/checkout/{TOKEN}">Stay on this page</a>"#
    ));
    let later = shop.checkout().await;
    assert_eq!(later.header("refresh"), "");
    later.says(&format!(r#"href="{BACK}""#));
    let expired = view(Status::Expired, vec![attempt(showing())]);
    let expired = self::shop(expired);
    let page = expired.get(&format!("/checkout/{TOKEN}?wait")).await;
    assert_eq!(page.header("refresh"), "", "there is something to read");
}

#[tokio::test]
async fn the_summary_says_whether_it_is_to_be_paid_or_was() {
    let line = |words: &str| format!("<p class=\"payee\">{words} \u{2068}Demo shop\u{2069}</p>");
    for (status, words) in [
        (Status::Created, "You pay"),
        (Status::Pending, "You pay"),
        (Status::Review, "Payment to"),
        (Status::Expired, "Payment to"),
        (Status::Completed, "Payment to"),
    ] {
        let shop = shop(view(status, vec![attempt(fixtures::redirect())]));
        shop.checkout().await.says(&line(words));
    }
    let mut paid = attempt(fixtures::redirect());
    fixtures::put(&mut paid, AttemptState::Captured);
    for (received, amount) in [
        (4990, "<p class=\"amount\">€49.90</p>"),
        (6000, "<p class=\"amount\">€60.00</p>"),
    ] {
        paid.vendor = Some(fixtures::facts(ProviderStatus::Overpaid, Minor(received)));
        let shop = shop(view(Status::Completed, vec![paid.clone()]));
        let page = shop.checkout().await;
        page.says(&line("You paid"));
        page.says(amount);
    }
}

#[tokio::test]
async fn a_completed_page_tells_of_a_second_payment_and_of_what_went_back_of_it() {
    let mut own = attempt(fixtures::redirect());
    fixtures::put(&mut own, AttemptState::Captured);
    let mut other = attempt(fixtures::redirect());
    other.id = kassette_domain::id::AttemptId::from_bytes([1; 16]);
    fixtures::put(&mut other, AttemptState::Surplus);
    other.vendor = Some(fixtures::facts(ProviderStatus::Completed, Minor(4990)));
    let words = "Another payment was received for this order as well";
    let page = shop(view(Status::Completed, vec![own.clone()]));
    page.checkout().await.omits(words);
    for (returned, rest) in [
        (0, ". Please ask \u{2068}Demo shop\u{2069} about it."),
        (1, ", and a part of it was given back."),
        (4990, ", and it was given back."),
    ] {
        let other = fixtures::gone(other.clone(), Minor(returned));
        let shop = shop(view(Status::Completed, vec![other, own.clone()]));
        let page = shop.checkout().await;
        page.says("You have paid \u{2068}€49.90\u{2069}");
        page.says(&format!("{words}{rest}"));
    }
}

#[tokio::test]
async fn a_page_under_review_tells_of_money_that_went_back() {
    let mut held = attempt(fixtures::redirect());
    fixtures::put(&mut held, AttemptState::Review);
    held.vendor = Some(fixtures::facts(ProviderStatus::Review, Minor(4990)));
    for (returned, words) in [
        (0, None),
        (
            1,
            Some("A part of the money that was received has been given back."),
        ),
        (
            4990,
            Some("The money that was received has been given back."),
        ),
    ] {
        let held = fixtures::gone(held.clone(), Minor(returned));
        let shop = shop(view(Status::Review, vec![held]));
        let page = shop.checkout().await;
        page.says("Please do not pay again.");
        match words {
            Some(words) => page.says(words),
            None => page.omits("given back"),
        }
    }
}

#[tokio::test]
async fn a_payment_has_arrived_once_that_is_on_record() {
    let mut waits = attempt(fixtures::redirect());
    fixtures::put(&mut waits, AttemptState::VerificationPending);
    let page = shop(view(Status::VerificationPending, vec![waits.clone()]));
    let page = page.checkout().await;
    page.says(
        "waiting for \u{2068}Sandbox\u{2069} to confirm your payment. Please do not pay again.",
    );
    page.omits("has arrived");
    waits.vendor = Some(fixtures::facts(
        ProviderStatus::VerificationPending,
        Minor(1),
    ));
    let page = shop(view(Status::VerificationPending, vec![waits]));
    page.checkout().await.says("Your payment has arrived");
}

#[tokio::test]
async fn an_expired_page_says_what_became_of_the_money_and_what_to_do() {
    let untried = shop(view(Status::Expired, vec![])).checkout().await;
    untried.says("no money was taken");
    untried.says("start again at");
    untried.omits("If you paid just before");
    let tried = ended(AttemptState::Expired).aggregate.attempts;
    let tried = shop(view(Status::Expired, tried)).checkout().await;
    tried.says("no money was taken");
    tried.says("If you paid just before, do not pay again");
    let mut surplus = attempt(fixtures::redirect());
    fixtures::put(&mut surplus, AttemptState::Surplus);
    // Also before the expiry is recorded.
    for status in [Status::Expired, Status::Created] {
        let mut late = view(status, vec![surplus.clone()]);
        late.aggregate.payment.expires_at = NOW;
        let paid = shop(late).checkout().await;
        paid.says("This payment has expired");
        paid.omits("no money was taken");
        paid.omits("If you paid just before");
    }
}

#[tokio::test]
async fn after_a_decline_a_direct_payments_pages_say_why_and_name_their_one_button() {
    let mut declined = ended(AttemptState::Declined);
    declined.aggregate.payment.mode = CheckoutMode::Direct;
    declined.offers.clear();
    declined.can_choose = false;
    let shop = shop(declined);
    for page in [shop.checkout().await, shop.returned().await] {
        page.says("The payment was declined");
        page.says("If you still want to pay, please start again at");
        page.omits("another way");
        page.says(&format!(r#"<a class="primary" href="{BACK}""#));
    }
}

#[tokio::test]
async fn nothing_is_to_be_chosen_above_a_page_without_a_choice() {
    let mut empty = ended(AttemptState::Declined);
    empty.offers.clear();
    for (start, words) in [
        (declined as Starting, "The payment was declined"),
        (|_| Err(NotAvailable::Method.into()), "no longer available"),
    ] {
        let shop = shop_at(empty.clone(), start, ORIGIN);
        let page = shop.post("choose", "payment_method=ideal").await;
        page.says("Paying is not possible right now");
        page.says(words);
        page.omits("choose another");
        let nothing = shop.post("choose", "").await;
        nothing.omits(r#"role="alert""#);
    }
    let gone = shop(empty).get(&format!("/checkout/{TOKEN}/go")).await;
    gone.says("The payment was declined");
    gone.omits("choose another");
}

#[tokio::test]
async fn a_language_chosen_from_the_menu_is_kept() {
    let shop = shop(pending(fixtures::redirect()));
    let page = format!("/checkout/{TOKEN}");
    let first = shop.checkout().await;
    first.says(r#"<a href="?language=pl" hreflang="pl" lang="pl" rel="nofollow">Polski</a>"#);
    first.omits("?language=en");
    for path in [
        page.clone(),
        format!("/return/{RETURN_TOKEN}"),
        format!("/invitation/{INVITATION_TOKEN}"),
    ] {
        let chosen = shop.get(&format!("{path}?language=pl")).await;
        assert_eq!(chosen.status, StatusCode::SEE_OTHER);
        assert_eq!(chosen.header("location"), path);
        assert_eq!(
            chosen.header("set-cookie"),
            "kassette-language=pl; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax"
        );
    }
    assert!(shop.asked().is_empty(), "a choice of words asks no vendor");
    let polish = Request::get(&page)
        .header("cookie", "kassette-language=pl")
        .header("accept-language", "de");
    let polish = shop.send(polish.body(Body::empty()).unwrap()).await;
    assert_eq!(polish.header("content-language"), "pl");
    polish.says("49,90\u{a0}€");
    let unknown = shop.get(&format!("{page}?language=xx")).await;
    assert_eq!(unknown.header("set-cookie"), "");
    let away = shop.get(&format!("{page}/go")).await;
    away.omits("?language=");
}

#[tokio::test]
async fn the_cookie_of_a_language_keeps_to_https() {
    let shop = shop_at(
        pending(fixtures::redirect()),
        declined,
        "https://pay.example",
    );
    let chosen = shop.get(&format!("/checkout/{TOKEN}?language=pl")).await;
    assert!(chosen.header("set-cookie").ends_with("; Secure"));
}

#[tokio::test]
async fn what_everyone_is_asked_for_is_asked_in_the_pages_language() {
    let shop = shop(pending(asking()));
    let german = shop.get_in("de", &format!("/checkout/{TOKEN}")).await;
    german.says("<bdi>E-Mail-Adresse</bdi>");
    german.says("<bdi>Telefonnummer</bdi>");
    german.omits("Your &#60;email&#62;");
}

#[tokio::test]
async fn updates_can_be_stopped() {
    let shop = shop(pending(showing()));
    shop.checkout()
        .await
        .says(&format!("/checkout/{TOKEN}?hold"));
    let paused = shop.get(&format!("/checkout/{TOKEN}?hold")).await;
    assert_eq!(paused.header("refresh"), "");
    paused.says("Updates are paused.");
}

#[tokio::test]
async fn another_way_is_offered_beside_an_open_attempt() {
    let shop = shop(pending(fixtures::redirect()));
    shop.checkout()
        .await
        .says(&format!(r#"action="/checkout/{TOKEN}/abandon""#));
    let page = shop.post("abandon", "").await;
    assert_eq!(page.status, StatusCode::CONFLICT, "it is open still");
    page.says("could not be closed for certain");
    page.says(&format!(r#"href="/checkout/{TOKEN}/go""#));
}

#[tokio::test]
async fn a_direct_payment_offers_no_choice() {
    let mut created = view(Status::Created, vec![]);
    let mut open = pending(fixtures::redirect());
    for direct in [&mut created, &mut open] {
        direct.aggregate.payment.mode = CheckoutMode::Direct;
        direct.offers.clear();
        direct.can_choose = false;
    }
    let waiting = shop(created).checkout().await;
    waiting.says("Please continue in the shop");
    waiting.omits("<form");
    let open = shop(open).checkout().await;
    open.says(&format!(r#"href="/checkout/{TOKEN}/go""#));
    open.omits("<form");
}

#[tokio::test]
async fn the_return_page_shows_the_truth_and_keeps_looking() {
    let shop = shop(pending(fixtures::redirect()));
    let page = shop
        .get(&format!("/return/{RETURN_TOKEN}?status=success"))
        .await;
    assert_eq!(shop.asked(), ["returned status=success"]);
    page.says("Waiting for \u{2068}Sandbox\u{2069}");
    page.says(r#"role="status" aria-live="polite""#);
    page.says(&format!(r#"href="{BACK}""#));
    assert_eq!(page.header("refresh"), "5");
    page.says(r#"<noscript><meta http-equiv="refresh" content="5"></noscript>"#);
}

#[tokio::test]
async fn a_payer_who_returns_by_a_form_or_to_a_slash_sees_the_return_page() {
    let shop = shop(pending(fixtures::redirect()));
    for path in ["", "?a=b", "/", "/?a=b"].map(|end| match end.strip_prefix('/') {
        Some(query) => format!("/return/{RETURN_TOKEN}/{query}"),
        None => format!("/return/{RETURN_TOKEN}{end}"),
    }) {
        let form = Request::post(&path)
            .header("sec-fetch-site", "cross-site")
            .header("origin", "https://acs.bank.example")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Body::from("status=failed&MD=1"))
            .unwrap();
        let led = shop.send(form).await;
        assert_eq!(led.status, StatusCode::SEE_OTHER, "{path}");
        assert_eq!(led.header("location"), path);
        let head = Request::head(&path).body(Body::empty()).unwrap();
        assert_eq!(shop.send(head).await.status, StatusCode::OK, "{path}");
        shop.get(&path)
            .await
            .says("Waiting for \u{2068}Sandbox\u{2069}");
    }
    let asked = shop.asked();
    assert!(
        asked.iter().all(|asked| !asked.contains("failed")),
        "{asked:?}"
    );
}

#[tokio::test]
async fn a_final_return_page_leads_back_by_itself() {
    for status in [
        Status::Completed,
        Status::Failed,
        Status::Cancelled,
        Status::Expired,
    ] {
        let mut done = view(status, vec![attempt(fixtures::redirect())]);
        let page = shop(done.clone()).returned().await;
        assert_eq!(page.header("refresh"), format!("10; url={BACK}"));
        page.says("Back to merchant");
        let stay = format!("/return/{RETURN_TOKEN}?stay");
        page.says(&format!(r#"href="{stay}">Stay on this page</a>"#));
        let staying = shop(done.clone());
        assert_eq!(staying.get(&stay).await.header("refresh"), "");
        assert_eq!(
            staying.asked(),
            ["returned "],
            "the provider's module is not given our query"
        );
        done.back_to_merchant = None;
        let end = shop(done).returned().await;
        assert_eq!(end.header("refresh"), "");
        end.omits("Back to merchant");
        end.says("You can close this page now.");
    }
}

/// The attempt of a payment that an operator has declined: its money was captured and is to be refunded.
#[tokio::test]
async fn no_page_says_that_no_money_was_taken_where_it_was() {
    let mut surplus = attempt(fixtures::redirect());
    fixtures::put(&mut surplus, AttemptState::Surplus);
    for status in [Status::Failed, Status::Cancelled, Status::Expired] {
        let nothing = shop(view(status, vec![])).checkout().await;
        nothing.omits("money was received");
        let shop = shop(view(status, vec![surplus.clone()]));
        for page in [shop.checkout().await, shop.returned().await] {
            page.omits("No money was taken");
            page.says("But money was received for it.");
        }
    }
    let returned = shop(view(Status::Created, vec![surplus])).returned().await;
    returned.omits("no money was taken");
    returned.omits("You have not paid yet");
    returned.says("But money was received for it.");
    let accepted = shop(view(Status::Completed, vec![])).checkout().await;
    accepted.omits("You have paid");
    accepted.says("has accepted this payment as paid");
}

#[tokio::test]
async fn a_shop_outside_ascii_is_reached_by_its_encoded_name() {
    let mut done = view(Status::Completed, vec![attempt(fixtures::redirect())]);
    done.back_to_merchant = Some("https://b\u{fc}cher.example/\u{fc}".into());
    let page = shop(done).returned().await;
    assert_eq!(
        page.header("refresh"),
        "10; url=https://xn--bcher-kva.example/%C3%BC"
    );
    page.says("href=\"https://b\u{fc}cher.example/\u{fc}\"");
}

#[tokio::test]
async fn an_attempt_that_ended_leads_back_to_the_choice() {
    let declined = shop(ended(AttemptState::Declined)).returned().await;
    declined.says("The payment was declined");
    declined.says(&format!(r#"href="/checkout/{TOKEN}""#));
    let closed = shop(ended(AttemptState::Closed)).returned().await;
    closed.says("You have not paid yet");
}

#[tokio::test]
async fn unknown_links_are_calmly_not_found() {
    let shop = shop(view(Status::Created, vec![]));
    for path in [
        "/checkout/nobody",
        "/checkout/a%20b",
        "/checkout/%ff",
        "/checkout/nobody/go",
        "/return/nobody",
        "/return/%00",
    ] {
        let page = shop.get(path).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}");
        page.says("We do not know this payment link");
    }
}

#[tokio::test]
async fn pages_speak_the_payers_language() {
    let shop = shop(view(Status::Created, vec![]));
    let page = shop
        .get_in("de-CH, en;q=0.5", &format!("/checkout/{TOKEN}"))
        .await;
    assert_eq!(page.header("content-language"), "de");
    page.says(r#"<html lang="de">"#);
    page.says("Wie möchten Sie bezahlen?");
}

#[tokio::test]
async fn the_stylesheet_may_be_kept_for_ever() {
    let shop = shop(view(Status::Created, vec![]));
    let path = crate::pages::assets::STYLE.path.clone();
    shop.checkout().await.says(&path);
    let style = shop.get(&path).await;
    assert_eq!(style.header("content-type"), "text/css; charset=utf-8");
    assert!(style.header("cache-control").contains("immutable"));
    let other = shop.get("/assets/0123.css").await;
    assert_eq!(other.status, StatusCode::NOT_FOUND);
}
