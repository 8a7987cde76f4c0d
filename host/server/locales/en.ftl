# What payers read, in English. Every other catalogue has the same messages and variables.

## Around every page

test-banner = TEST
test-banner-text = This is a test payment. No real money moves.
footer-reassurance = You enter card and bank details only with the payment provider. They never reach this page.
footer-brand = Checkout by Kassette
opens-new-tab = (opens in a new tab)
language-menu = Language
summary-pay = You pay { $merchant }
summary-paid = You paid { $merchant }
summary-about = Payment to { $merchant }
summary-order = Order
support = Questions about your order?

## Choosing

choose-title = Pay { $amount } to { $merchant }
choose-heading = How would you like to pay?
choose-heading-again = How would you like to pay now?
choose-hint = Nothing is charged when you choose. You complete your payment in the steps that follow.
choose-with = Continue with { $method }
choose-declined = Your last try was declined.
choose-down = Not offered for about a minute, because { $provider } does not answer.
choose-via = via { $provider }
choose-more = More about { $provider }
changed-title = Please look once more
changed-text = { $method } would now go through { $provider }, under the conditions below. Continue if you agree.
changed-continue = Continue with { $provider }
changed-other = See all ways to pay

## On to the provider

going-title = Taking you to { $provider } …
going-text = There you pay { $amount }, and then you come back here.
go-text-stuck = If nothing happens, use the button.
go-link = Continue to { $provider }
open-title = Your payment is waiting
open-text = You chose { $method } with { $provider }. Continue there to pay.
post-title = On to { $provider }
post-text = Your payment is ready. The button takes you to { $provider }, where you confirm it.
another-way = Choose another way to pay
another-way-hint = We close the payment with { $provider } first, so that you never pay twice.
lapsed-title = This took a little too long
lapsed-text = The time to pay with { $provider } has run out. If you have paid already, do not pay again: this page shows your payment as soon as it is reported.

## Questions

questions-title = A few details for { $provider }
questions-text = { $provider } needs this to take your payment. We pass it on for this payment only.
questions-submit = Continue
question-optional = optional
question-choose = Please choose
question-email = E-mail address
question-phone = Phone number
question-given-name = First name
question-family-name = Last name
error-summary = Please check the marked answers.
error-required = Please fill this in.
error-email = Please enter an e-mail address, such as name@example.org.
error-phone = Please enter a phone number with its country code, such as +31 20 123 4567.
error-length = Please use at most { $most } characters.
error-choice = Please choose one of the options.
error-characters = Please use letters, digits and ordinary punctuation only.
error-card = Please do not enter a card number here.

## Instructions

show-title = Pay with { $method }
show-details = Payment details
show-details-hint = Click or tap a value to select all of it.
copy = Copy
show-qr = QR code for your banking or wallet app; it holds the payment details of this page
show-link = Open the app
show-page = Open the payment page
show-left = Time left to pay: { $time }
show-paid = I have paid – check now

## Where a payment stands

completed-title = Payment complete
completed-text = Thank you. You have paid { $amount } to { $merchant }.
completed-test = This was a test. Nobody was charged.
receipt-date = Date
receipt-method = Method
receipt-by = { $method }, with { $provider }
receipt-reference = Reference
receipt-payee = Paid to
receipt-paid = Amount paid
receipt-refunded = Refunded, { $day }
receipt-rest = Paid after refunds
receipt-keep = To keep a copy, print this page or save it as a PDF. It confirms the payment and is not an invoice.
completed-part-returned = { $amount } of it was refunded.
completed-disputed = This payment is disputed at the payment provider.
second-received = Another payment was received for this order as well. Please ask { $merchant } about it.
second-part-given-back = Another payment was received for this order as well, and a part of it was given back. Please ask { $merchant } about the rest.
second-given-back = Another payment was received for this order as well, and it was given back.
accepted-text = { $merchant } has accepted this payment as paid.
returned-title = Your money was given back
returned-text = You had paid { $amount } to { $merchant }, and it was given back.
money-received = But money was received for it. Please do not pay again; ask { $merchant } about it.
money-part-given-back = But money was received for it, and a part was given back. Please do not pay again; ask { $merchant } about the rest.
money-given-back = The money that was received for it was given back. If you still want to pay, please start again at { $merchant }.
money-unclear = Whether money was taken is not certain. Please do not pay again; ask { $merchant } about it.
processing-title = Your payment is being processed
processing-text = This usually takes a moment. You need not do anything.
verification-title = Waiting for the final confirmation
verification-text = Your payment has arrived and is being confirmed. This can take a while. You may close this page; { $merchant } will be told.
verification-awaited = We are waiting for { $provider } to confirm your payment. Please do not pay again. You may close this page; { $merchant } will be told.
review-title = Your payment is being checked
review-text = Somebody takes a look before it goes through. Please do not pay again. { $merchant } will be told the result.
review-part-given-back = A part of the money that was received has been given back.
review-given-back = The money that was received has been given back.
failed-title = This payment did not go through
failed-text = No money was taken. To try again, please start a new payment at { $merchant }.
cancelled-title = This payment was called off
cancelled-text = No money was taken. If you still want to pay, please start again at { $merchant }.
expired-title = This payment has expired
expired-text = It was not paid in time, and no money was taken. If you still want to pay, please start again at { $merchant }.
expired-late = If you paid just before, do not pay again: ask { $merchant }. A payment that still arrives will be looked at.
checking-title = One moment, please
checking-text = { $provider } has not answered yet. We make sure of it before anything else happens, so that you never pay twice.
checking-retry = Ask again
waiting-title = Waiting for { $provider }
waiting-text = As soon as { $provider } confirms your payment, you see it here. Not finished yet? You can continue.
waiting-declined = The last try with { $provider } was declined. You can try again there. Another way can be chosen once { $provider } says that the try is over.
declined-title = The payment was declined
ended-title = You have not paid yet
ended-text = The payment with { $provider } has ended, and no money was taken.
try-again = You can try again or choose another way.
pay-in-shop = If you still want to pay, please start again at { $merchant }.
choose-again = Choose how to pay
see-current = See the payment
direct-title = Please continue in the shop
direct-text = { $merchant } starts this payment. Go back to the shop and choose to pay there.
unavailable-title = Paying is not possible right now
unavailable-text = No way to pay is available for this amount at the moment. Please try again later or ask { $merchant }.
back-to-merchant = Back to merchant
back-soon = In a few seconds you return to { $merchant } automatically.
stay = Stay on this page
close-page = You can close this page now.
updates-itself = This page keeps itself up to date.
updates-pause = Pause
updates-paused = Updates are paused.
check-again = Check again

## Notices after a choice

notice-still-open = The payment with { $provider } could not be closed for certain. So that you never pay twice, please continue it, or try again in a little while.
notice-not-available = That way to pay is no longer available.
choose-another = Please choose another.
not-taken = No money was taken for this try.
one-try-left = One try is left: choose a way to pay that is likely to work.
declined-funds = The payment was declined: not enough money was available.
advice-funds = Use another card or another way to pay, or ask your bank about your balance and limit.
declined-expired = The payment was declined: the card has expired.
advice-expired = Use another card, or check the date that you entered.
declined-authentication = Your bank could not confirm that it is you.
advice-authentication = Try again and confirm in your bank’s app, or choose another way to pay.
declined-limit = The payment was declined: the amount is over a limit.
advice-limit = Ask your bank to raise the limit, or choose another way to pay.
declined-bank = The payment was declined, and no reason was given.
advice-bank = Your bank may tell you why. Use another card, or choose another way to pay.
declined-cancelled = You cancelled the payment.
declined-provider = { $provider } did not accept the payment.
down-title = { $provider } does not answer right now.
down-text = Your payment was not started there, and no money was taken.
advice-down = Choose another way, or check again in a minute.
notice-forbidden = Payments to { $merchant } cannot be started at the moment.
notice-conflict = That is no longer possible. This is where your payment stands now.
notice-unsettled = The provider has not answered yet. Please wait a moment.
notice-choose = Please choose one of the ways to pay.

## When something is wrong

not-found-title = We do not know this payment link
not-found-text = Please check that the address is complete, or go back to the shop and start again from there.
foreign-title = Please use the buttons of our page
foreign-text = This request did not come from our payment page, so nothing was done. Open your payment link again and continue from there.
too-large-title = That was too much text
too-large-text = Nothing was done. Please go back and shorten what you entered.
unreadable-title = We could not read that
unreadable-text = Nothing was done. Please go back and try again.
failure-title = Something went wrong on our side
failure-text = Please wait a moment and open your payment link again. Do not start a second payment meanwhile.
too-many-requests = Too many requests from your network. Wait a moment and open your payment link again.
busy = Many people are paying just now. Wait a moment and open your payment link again.
open-payment = Open the payment

## Invitations of resellers

open-invitation = Open the invitation
no-invitation-title = We do not know this invitation
no-invitation-text = Please check that the address is complete, or ask whoever sent it to you.
invitation-foreign-text = This request did not come from our page, so nothing was done. Open the invitation again and continue from there.
invitation-title = { $reseller } would like to take payments for you
invitation-text = If you accept, { $reseller } can create payments for { $business } and send your customers to pay.
invitation-yours = The payments and the money are yours: your own settings and limits hold, and you are told of each payment. You can take this back at any time.
invitation-code = Consent code
invitation-code-hint = The operator of this service gives it to you, not the one who invites. It begins with km_, is good for 24 hours and works once. Pass it on to nobody.
invitation-accept = Accept
invitation-decline = Decline
invitation-until = You can answer until { $date } (UTC).
invitation-footer = Accepting needs your consent code. Whoever only has this address can decline and nothing else.
invitation-authorized-title = You have accepted
invitation-authorized-text = { $reseller } can now create payments for { $business }. To take this back, tell the operator of this service.
invitation-declined-title = This invitation was declined
invitation-declined-text = { $reseller } cannot do anything for you because of it.
invitation-expired-title = This invitation has expired
invitation-expired-text = It could be answered for 30 days. If you still want to accept, ask { $reseller } for a new one.
invitation-revoked-title = This was taken back
invitation-revoked-text = { $reseller } can no longer create payments for you.
invitation-error-missing = Please enter your consent code.
invitation-error-wrong = This code is wrong, used or no longer good. After five wrong tries you need a new one.
invitation-notice-decide = Please press Accept or Decline.

## Providers

provider-unnamed = the payment provider
