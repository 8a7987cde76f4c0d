// A shop whose client openapi-generator (go) creates from /openapi.json: a paid payment. `.ci/run` copies this file
// into the client's package.
package kassette

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"
)

// Test amount that the payer approves.
const approved = "7001.01"

func TestGoClientMakesAPaidPayment(t *testing.T) {
	text, err := os.ReadFile(os.Getenv("KASSETTE_READY_FILE"))
	if err != nil {
		t.Fatal(err)
	}
	var ready struct {
		BaseURL   string `json:"base_url"`
		Merchants []struct {
			TestKey string `json:"test_key"`
		}
	}
	if err := json.Unmarshal(text, &ready); err != nil {
		t.Fatal(err)
	}
	configuration := NewConfiguration()
	configuration.Servers = ServerConfigurations{{URL: ready.BaseURL}}
	client := NewAPIClient(configuration)
	ctx := context.WithValue(context.Background(), ContextAccessToken, ready.Merchants[0].TestKey)

	body := NewPaymentCreateRequest(approved, fmt.Sprintf("go-%d", time.Now().UnixNano()), "O-7")
	body.SetCurrency(EUR)
	body.SetCheckoutMode(DIRECT)
	body.SetPaymentMethod("credit_card")
	payment, _, err := client.PaymentsAPI.CreatePayment(ctx).PaymentCreateRequest(*body).Execute()
	if err != nil {
		t.Fatal(err)
	}
	start := NewStartRequest(payment.PaymentId, "credit_card")
	started, _, err := client.PaymentsAPI.StartPayment(ctx).StartRequest(*start).Execute()
	if err != nil {
		t.Fatal(err)
	}
	page, err := http.Get(started.RedirectUrl)
	if err != nil || page.StatusCode != http.StatusOK {
		t.Fatal(page, err)
	}
	page.Body.Close()
	deadline := time.Now().Add(45 * time.Second)
	for payment.SettlementStatus != "confirmed" {
		if time.Now().After(deadline) {
			t.Fatalf("the payment is %s", payment.Status)
		}
		time.Sleep(time.Second)
		payment, _, err = client.PaymentsAPI.ReadPayment(ctx, payment.PaymentId).Execute()
		if err != nil {
			t.Fatal(err)
		}
	}
	listed, _, err := client.EventsAPI.ListEvents(ctx).PaymentId(payment.PaymentId).Type_("payment.completed").Execute()
	if err != nil || len(listed.Events) != 1 || listed.Events[0].Data.OrderId != "O-7" {
		t.Fatal(listed, err)
	}
}
