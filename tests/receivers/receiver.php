<?php
// A shop that receives Kassette's webhooks. PHP 8.1 or newer, no packages.
//
//     KASSETTE_WEBHOOK_SECRETS=whsec_... KASSETTE_SHOP=FOLDER php -S 127.0.0.1:PORT receiver.php
//
// FOLDER holds orders.json, the shop's own orders, and gets events.log: one line an event, its id,
// its type, and whether it paid an order. The log stands for a database in which all three are one
// transaction. While a secret is rotated, both stand in the variable with a blank between them.

declare(strict_types=1);

// -- verify
const TOLERANCE = 300; // seconds

/** The event in a body, which is given as the bytes that arrived; else an exception. */
function verify(array $secrets, array $server, string $body, int $now): array
{
    $event_id = $server['HTTP_X_SERVICE_EVENT_ID'] ?? '';
    $timestamp = $server['HTTP_X_SERVICE_TIMESTAMP'] ?? '';
    $signature = $server['HTTP_X_SERVICE_SIGNATURE'] ?? '';
    // \z and not $, which lets a line feed pass.
    if (!preg_match('/^[0-9a-f]{32}\z/', $event_id)) {
        throw new RuntimeException('malformed event id');
    }
    if (!preg_match('/^[0-9]{10}\z/', $timestamp) || abs($now - (int) $timestamp) > TOLERANCE) {
        throw new RuntimeException('malformed or old timestamp');
    }
    if (!preg_match('/^v1=[0-9a-f]{64}\z/', $signature)) {
        throw new RuntimeException('malformed signature');
    }
    $right = false;
    foreach ($secrets as $secret) {
        $digest = hash_hmac('sha256', "$timestamp.$event_id.$body", $secret);
        $right = hash_equals("v1=$digest", $signature) || $right;
    }
    if (!$right) {
        throw new RuntimeException('wrong signature');
    }
    $event = json_decode($body, true, 512, JSON_THROW_ON_ERROR);
    if ($event['id'] !== $event_id) {
        throw new RuntimeException('the body is of another event');
    }
    return $event;
}
// -- end

/** Whether an event says that one of our own orders is paid. */
function pays(array $event, array $orders): bool
{
    if ($event['type'] !== 'payment.completed') {
        return false;
    }
    $data = $event['data'];
    $final = $data['status'] === 'completed' && $data['settlement_status'] === 'confirmed';
    foreach ($orders as $order) {
        $same = true;
        foreach (['payment_id', 'order_id', 'amount', 'currency'] as $name) {
            $same = $same && $data[$name] === $order[$name];
        }
        if ($same && $final && $data['test_mode'] === false) {
            return true;
        }
    }
    return false;
}

/** Does what an event asks for, once; comes back when that is on disk. */
function take(array $event, array $orders, string $path): void
{
    $log = fopen($path, 'a+');
    flock($log, LOCK_EX);
    while (($line = fgets($log)) !== false) {
        if (explode(' ', $line)[0] === $event['id']) {
            return;
        }
    }
    $outcome = pays($event, $orders) ? 'paid' : 'seen';
    fwrite($log, "{$event['id']} {$event['type']} $outcome\n");
    fsync($log);
}

$folder = getenv('KASSETTE_SHOP');
$secrets = explode(' ', getenv('KASSETTE_WEBHOOK_SECRETS'));
try {
    $event = verify($secrets, $_SERVER, file_get_contents('php://input'), time());
} catch (Throwable $error) {
    http_response_code(400);
    echo $error->getMessage();
    return;
}
take($event, json_decode(file_get_contents("$folder/orders.json"), true), "$folder/events.log");
// An event that was taken before is answered alike: otherwise it would come again.
echo 'ok';
