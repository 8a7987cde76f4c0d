//! Return URLs: accepted under a verified domain, and refused if they only look like it.

use serde_json::json;

use crate::harness::{new_payment, shared};

/// URLs under `shop.example` (without subdomains), `deep.example` (with subdomains) and `bücher.example`.
const TAKEN: &[&str] = &[
    "https://shop.example",
    "https://shop.example/",
    "https://shop.example/thanks?order=1&x=%2F#done",
    "https://shop.example/a%2Fb/%2e%2e/c",
    "https://shop.example//other.example/",
    "https://shop.example/?next=https://other.example/",
    "https://shop.example/@other.example/",
    "https://shop.example#@other.example",
    "https://shop.example?@other.example",
    // The explicit default port, and other spellings of the same host name.
    "https://shop.example:443/thanks",
    "https://SHOP.Example/thanks",
    "HTTPS://shop.example/thanks",
    "https://shop%2eexample/thanks",
    "https://ｓｈｏｐ.example/thanks",
    "https://shop。example/thanks",
    // Subdomains at any depth, if the domain record allows them.
    "https://deep.example/",
    "https://eu.deep.example/",
    "https://a.b.c.deep.example/thanks",
    // An internationalized domain name, in both forms.
    "https://bücher.example/",
    "https://BÜCHER.example/",
    "https://xn--bcher-kva.example/",
    "https://XN--BCHER-KVA.example/",
];

const REFUSED: &[&str] = &[
    // Other schemes, or no scheme.
    "http://shop.example/",
    "ftp://shop.example/",
    "javascript:alert(1)//shop.example",
    "data:text/html,shop.example",
    "//shop.example/",
    "/thanks",
    "shop.example",
    "https:shop.example",
    "https:/shop.example",
    "https:///shop.example",
    "https://",
    "",
    // Similar names.
    "https://other.example/",
    "https://evilshop.example/",
    "https://shop.example.evil.test/",
    "https://shop-example.test/",
    "https://shop.examp1e/",
    "https://shop.exampIe.test/",
    "https://example/",
    "https://xshop.example/",
    "https://shop.example.com/",
    // Letters of other alphabets: the third letter of the first host is Cyrillic, the fourth of the second Greek.
    "https://shоp.example/",
    "https://shoρ.example/",
    "https://bucher.example/",
    "https://xn--shp-vkc.example/",
    // Subdomains that the domain record does not allow.
    "https://sub.shop.example/",
    "https://www.shop.example/",
    "https://sub.bücher.example/",
    "https://notdeep.example/",
    "https://deep.example.evil.test/",
    // User names.
    "https://user@shop.example/",
    "https://user:pass@shop.example/",
    "https://@shop.example/",
    "https://:@shop.example/",
    "https://shop.example@evil.test/",
    "https://shop.example%40evil.test/",
    "https://shop.example:443@evil.test/",
    // Ports.
    "https://shop.example:444/",
    "https://shop.example:80/",
    "https://shop.example:0/",
    "https://shop.example:8443/",
    "https://shop.example:65536/",
    "https://shop.example:x/",
    // Trailing dots, in any form, and empty labels.
    "https://shop.example./",
    "https://shop.example.:443/",
    "https://shop.example%2e/",
    "https://shop.example。/",
    "https://deep.example./",
    "https://.shop.example/",
    "https://a..deep.example/",
    "https://.deep.example/",
    // Encoded slashes and backslashes at the end of the host.
    "https://shop.example%2Fevil.test/",
    "https://evil.test%2F.shop.example/",
    "https://evil.test%2Fdeep.example/",
    "https://shop.example\\evil.test/",
    "https://shop.example\\@evil.test/",
    "https:\\\\shop.example/",
    "https://evil.test\\.deep.example/",
    "https://evil.test%5C.deep.example/",
    "https://evil.test%23.deep.example/",
    "https://evil.test#.deep.example/",
    "https://evil.test?.deep.example/",
    "https://evil.test%00.deep.example/",
    // White space, control characters and invisible characters.
    " https://shop.example/",
    "https://shop.example/ ",
    "https://shop.example/\n",
    "https://shop\t.example/",
    "https://shop.example/\u{0}",
    "https://shop.example/\u{2028}",
    // IP addresses.
    "https://127.0.0.1/",
    "https://2130706433/",
    "https://0x7f.0.0.1/",
    "https://0177.0.0.1/",
    "https://[::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://１２７.0.0.1/",
];

#[tokio::test]
async fn a_return_url_lies_under_a_verified_domain_and_nowhere_that_looks_like_it() {
    let server = shared().await;
    let (merchant, key, _) = server.merchant(json!({})).await;
    for (domain, include_subdomains) in [
        ("shop.example", false),
        ("deep.example", true),
        ("Bücher.example", false),
    ] {
        let body = json!({ "domain": domain, "include_subdomains": include_subdomains });
        let path = format!("/merchants/{merchant}/domains");
        server.admin("POST", &path, Some(&body)).await.expect(201);
    }
    let create = async |url: &str| {
        let mut payment = new_payment();
        payment["return_url"] = json!(url);
        server.post(&key, "/api/v1/payments", &payment).await
    };
    let mut wrong = Vec::new();
    for url in TAKEN {
        let answer = create(url).await;
        if answer.status != 201 {
            wrong.push(format!("{url} is {}: {}", answer.status, answer.text));
        }
    }
    for url in REFUSED {
        let answer = create(url).await;
        if answer.status != 422 || !answer.error().starts_with("return_url") {
            wrong.push(format!("{url} is {}", answer.status));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn under_dev_a_shop_on_this_machine_is_returned_to() {
    let server = shared().await;
    let (merchant, key, _) = server.merchant(json!({})).await;
    let create = async |url: &str| {
        let mut payment = new_payment();
        payment["return_url"] = json!(url);
        server.post(&key, "/api/v1/payments", &payment).await
    };
    let back = "http://localhost:3000/thanks?order=1";
    create(back).await.expect(422);
    let path = format!("/merchants/{merchant}/domains");
    let body = json!({ "domain": "LocalHost" });
    let verified = server.admin("POST", &path, Some(&body)).await.expect(201);
    assert_eq!(verified.json()["domain"], "localhost");
    for url in [back, "http://localhost/", "https://localhost:8443/"] {
        create(url).await.expect(201);
    }
    for url in [
        "http://127.0.0.1:3000/",
        "http://shop.localhost:3000/",
        "http://localhost.evil.test/",
        "http://localhost@evil.test/",
    ] {
        create(url).await.expect(422);
    }
    // The payer's page links there.
    let made = create(back).await.expect(201).json();
    let page = server.http.get(made["checkout_url"].as_str().unwrap());
    let page = server.send(page).await.expect(200);
    assert!(page.text.contains("http://localhost:3000/thanks?order=1"));
    let gone = format!("{path}/localhost");
    server.admin("DELETE", &gone, None).await.expect(204);
    create(back).await.expect(422);
}
