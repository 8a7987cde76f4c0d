# Was Zahlende lesen, auf Deutsch.

## Um jede Seite

test-banner = TEST
test-banner-text = Dies ist eine Testzahlung. Es fließt kein echtes Geld.
footer-reassurance = Karten- und Bankdaten geben Sie nur beim Zahlungsanbieter ein. Diese Seite erhält sie nie.
footer-brand = Bezahlseite von Kassette
opens-new-tab = (öffnet einen neuen Tab)
language-menu = Sprache
summary-pay = Sie zahlen an { $merchant }
summary-paid = Sie haben an { $merchant } bezahlt
summary-about = Zahlung an { $merchant }
summary-order = Bestellung
support = Fragen zu Ihrer Bestellung?

## Auswählen

choose-title = { $amount } an { $merchant } bezahlen
choose-heading = Wie möchten Sie bezahlen?
choose-heading-again = Wie möchten Sie jetzt bezahlen?
choose-hint = Mit der Auswahl wird noch nichts abgebucht. Sie schließen die Zahlung in den nächsten Schritten ab.
choose-with = Weiter mit { $method }
choose-declined = Ihr letzter Versuch wurde abgelehnt.
choose-down = Für etwa eine Minute nicht verfügbar, weil { $provider } nicht antwortet.
choose-via = über { $provider }
choose-more = Mehr über { $provider }
changed-title = Bitte schauen Sie noch einmal hin
changed-text = { $method } würde nun über { $provider } laufen, zu den folgenden Bedingungen. Fahren Sie fort, wenn Sie einverstanden sind.
changed-continue = Mit { $provider } fortfahren
changed-other = Alle Zahlungsarten ansehen

## Weiter zum Anbieter

going-title = Weiter zu { $provider } …
going-text = Dort bezahlen Sie { $amount } und kommen danach hierher zurück.
go-text-stuck = Falls nichts geschieht, nutzen Sie bitte die Schaltfläche.
go-link = Weiter zu { $provider }
open-title = Ihre Zahlung wartet auf Sie
open-text = Sie haben { $method } mit { $provider } gewählt. Fahren Sie dort fort, um zu bezahlen.
post-title = Weiter zu { $provider }
post-text = Ihre Zahlung ist vorbereitet. Die Schaltfläche führt Sie zu { $provider }, wo Sie sie bestätigen.
another-way = Andere Zahlungsart wählen
another-way-hint = Wir schließen zuerst die Zahlung bei { $provider }, damit Sie nie doppelt bezahlen.
lapsed-title = Das hat etwas zu lange gedauert
lapsed-text = Die Zeit, um mit { $provider } zu bezahlen, ist abgelaufen. Falls Sie schon bezahlt haben, bezahlen Sie nicht noch einmal: Diese Seite zeigt Ihre Zahlung, sobald sie gemeldet wird.

## Fragen

questions-title = Einige Angaben für { $provider }
questions-text = { $provider } braucht dies, um Ihre Zahlung anzunehmen. Wir geben es nur für diese Zahlung weiter.
questions-submit = Weiter
question-optional = freiwillig
question-choose = Bitte wählen
question-email = E-Mail-Adresse
question-phone = Telefonnummer
question-given-name = Vorname
question-family-name = Nachname
error-summary = Bitte prüfen Sie die markierten Angaben.
error-required = Bitte füllen Sie dieses Feld aus.
error-email = Bitte geben Sie eine E-Mail-Adresse ein, zum Beispiel name@example.org.
error-phone = Bitte geben Sie eine Telefonnummer mit Landesvorwahl ein, zum Beispiel +49 30 1234567.
error-length = Bitte verwenden Sie höchstens { $most } Zeichen.
error-choice = Bitte wählen Sie eine der Möglichkeiten.
error-characters = Bitte verwenden Sie nur Buchstaben, Ziffern und übliche Satzzeichen.
error-card = Bitte geben Sie hier keine Kartennummer ein.

## Anweisungen

show-title = Mit { $method } bezahlen
show-details = Zahlungsdaten
show-details-hint = Klicken oder tippen Sie auf einen Wert, um ihn ganz auszuwählen.
copy = Kopieren
show-qr = QR-Code für Ihre Banking- oder Wallet-App; er enthält die Zahlungsdaten dieser Seite
show-link = App öffnen
show-page = Bezahlseite öffnen
show-left = Verbleibende Zeit zum Bezahlen: { $time }
show-paid = Ich habe bezahlt – jetzt prüfen

## Wo eine Zahlung steht

completed-title = Zahlung abgeschlossen
completed-text = Vielen Dank. Sie haben { $amount } an { $merchant } bezahlt.
completed-test = Dies war ein Test. Niemandem wurde etwas berechnet.
receipt-date = Datum
receipt-method = Zahlungsart
receipt-by = { $method }, mit { $provider }
receipt-reference = Referenz
receipt-payee = Bezahlt an
receipt-paid = Bezahlter Betrag
receipt-refunded = Erstattet am { $day }
receipt-rest = Bezahlt nach Erstattungen
receipt-keep = Drucken Sie diese Seite oder speichern Sie sie als PDF, um sie aufzubewahren. Sie bestätigt die Zahlung und ist keine Rechnung.
completed-part-returned = Davon wurden { $amount } erstattet.
completed-disputed = Diese Zahlung ist beim Zahlungsanbieter strittig.
second-received = Für diese Bestellung ist noch eine weitere Zahlung eingegangen. Bitte fragen Sie { $merchant } danach.
second-part-given-back = Für diese Bestellung ist noch eine weitere Zahlung eingegangen; ein Teil davon wurde erstattet. Bitte fragen Sie { $merchant } nach dem Rest.
second-given-back = Für diese Bestellung ist noch eine weitere Zahlung eingegangen; sie wurde erstattet.
accepted-text = { $merchant } hat diese Zahlung als bezahlt angenommen.
returned-title = Ihr Geld wurde erstattet
returned-text = Sie hatten { $amount } an { $merchant } bezahlt; der Betrag wurde erstattet.
money-received = Es ist aber Geld dafür eingegangen. Bitte bezahlen Sie nicht noch einmal und fragen Sie { $merchant } danach.
money-part-given-back = Es ist aber Geld dafür eingegangen, und ein Teil davon wurde erstattet. Bitte bezahlen Sie nicht noch einmal und fragen Sie { $merchant } nach dem Rest.
money-given-back = Das Geld, das dafür eingegangen war, wurde erstattet. Wenn Sie weiterhin bezahlen möchten, beginnen Sie bitte erneut bei { $merchant }.
money-unclear = Ob Geld eingezogen wurde, steht nicht fest. Bitte bezahlen Sie nicht noch einmal und fragen Sie { $merchant } danach.
processing-title = Ihre Zahlung wird verarbeitet
processing-text = Das dauert meist nur einen Augenblick. Sie brauchen nichts zu tun.
verification-title = Die endgültige Bestätigung steht noch aus
verification-text = Ihre Zahlung ist eingegangen und wird bestätigt. Das kann eine Weile dauern. Sie können diese Seite schließen; { $merchant } wird benachrichtigt.
verification-awaited = Die Bestätigung von { $provider } steht noch aus. Bitte bezahlen Sie nicht noch einmal. Sie können diese Seite schließen; { $merchant } wird benachrichtigt.
review-title = Ihre Zahlung wird geprüft
review-text = Jemand sieht sie sich an, bevor sie ausgeführt wird. Bitte bezahlen Sie nicht noch einmal. { $merchant } erfährt das Ergebnis.
review-part-given-back = Ein Teil des eingegangenen Geldes wurde erstattet.
review-given-back = Das eingegangene Geld wurde erstattet.
failed-title = Diese Zahlung ist nicht zustande gekommen
failed-text = Es wurde kein Geld eingezogen. Für einen neuen Versuch beginnen Sie bitte eine neue Zahlung bei { $merchant }.
cancelled-title = Diese Zahlung wurde abgebrochen
cancelled-text = Es wurde kein Geld eingezogen. Wenn Sie weiterhin bezahlen möchten, beginnen Sie bitte erneut bei { $merchant }.
expired-title = Diese Zahlung ist abgelaufen
expired-text = Sie wurde nicht rechtzeitig bezahlt, und es wurde kein Geld eingezogen. Wenn Sie weiterhin bezahlen möchten, beginnen Sie bitte erneut bei { $merchant }.
expired-late = Falls Sie gerade noch bezahlt haben, bezahlen Sie nicht noch einmal und fragen Sie { $merchant }. Eine Zahlung, die noch eintrifft, wird geprüft.
checking-title = Einen Moment bitte
checking-text = { $provider } hat noch nicht geantwortet. Wir klären das, bevor irgendetwas anderes geschieht, damit Sie nie doppelt bezahlen.
checking-retry = Noch einmal nachfragen
waiting-title = Wir warten auf { $provider }
waiting-text = Sobald { $provider } Ihre Zahlung bestätigt, sehen Sie es hier. Noch nicht fertig? Sie können weitermachen.
waiting-declined = Der letzte Versuch mit { $provider } wurde abgelehnt. Sie können es dort noch einmal versuchen. Ein anderer Weg kann gewählt werden, sobald { $provider } meldet, dass der Versuch beendet ist.
declined-title = Die Zahlung wurde abgelehnt
ended-title = Sie haben noch nicht bezahlt
ended-text = Die Zahlung mit { $provider } wurde beendet, es wurde kein Geld eingezogen.
try-again = Sie können es erneut versuchen oder eine andere Zahlungsart wählen.
pay-in-shop = Wenn Sie weiterhin bezahlen möchten, beginnen Sie bitte erneut bei { $merchant }.
choose-again = Zahlungsart wählen
see-current = Zahlung ansehen
direct-title = Bitte fahren Sie im Shop fort
direct-text = Diese Zahlung wird von { $merchant } gestartet. Gehen Sie zurück in den Shop und wählen Sie dort die Bezahlung.
unavailable-title = Bezahlen ist gerade nicht möglich
unavailable-text = Für diesen Betrag ist im Moment keine Zahlungsart verfügbar. Bitte versuchen Sie es später erneut oder fragen Sie { $merchant }.
back-to-merchant = Zurück zum Shop
back-soon = In wenigen Sekunden kehren Sie von selbst zu { $merchant } zurück.
stay = Auf dieser Seite bleiben
close-page = Sie können diese Seite jetzt schließen.
updates-itself = Diese Seite aktualisiert sich von selbst.
updates-pause = Anhalten
updates-paused = Die Aktualisierung ist angehalten.
check-again = Erneut prüfen

## Hinweise nach einer Wahl

notice-still-open = Die Zahlung bei { $provider } konnte nicht sicher geschlossen werden. Damit Sie nie doppelt bezahlen, setzen Sie sie bitte fort oder versuchen Sie es in Kürze noch einmal.
notice-not-available = Diese Zahlungsart ist nicht mehr verfügbar.
choose-another = Bitte wählen Sie eine andere.
not-taken = Für diesen Versuch wurde kein Geld eingezogen.
one-try-left = Ein Versuch bleibt: Wählen Sie eine Zahlungsart, die voraussichtlich funktioniert.
declined-funds = Die Zahlung wurde abgelehnt: Es war nicht genug Geld verfügbar.
advice-funds = Nutzen Sie eine andere Karte oder Zahlungsart, oder fragen Sie Ihre Bank nach Kontostand und Limit.
declined-expired = Die Zahlung wurde abgelehnt: Die Karte ist abgelaufen.
advice-expired = Nutzen Sie eine andere Karte, oder prüfen Sie das eingegebene Datum.
declined-authentication = Ihre Bank konnte nicht bestätigen, dass Sie es sind.
advice-authentication = Versuchen Sie es erneut und bestätigen Sie in der App Ihrer Bank, oder wählen Sie eine andere Zahlungsart.
declined-limit = Die Zahlung wurde abgelehnt: Der Betrag liegt über einem Limit.
advice-limit = Bitten Sie Ihre Bank, das Limit zu erhöhen, oder wählen Sie eine andere Zahlungsart.
declined-bank = Die Zahlung wurde ohne Angabe eines Grundes abgelehnt.
advice-bank = Ihre Bank kann Ihnen vielleicht den Grund nennen. Nutzen Sie eine andere Karte, oder wählen Sie eine andere Zahlungsart.
declined-cancelled = Sie haben die Zahlung abgebrochen.
declined-provider = { $provider } hat die Zahlung nicht angenommen.
down-title = { $provider } antwortet gerade nicht.
down-text = Ihre Zahlung wurde dort nicht begonnen, es wurde kein Geld eingezogen.
advice-down = Wählen Sie eine andere Zahlungsart, oder prüfen Sie in einer Minute erneut.
notice-forbidden = Zahlungen an { $merchant } können im Moment nicht begonnen werden.
notice-conflict = Das ist nicht mehr möglich. So steht es jetzt um Ihre Zahlung.
notice-unsettled = Der Anbieter hat noch nicht geantwortet. Bitte warten Sie einen Moment.
notice-choose = Bitte wählen Sie eine der Zahlungsarten.

## Wenn etwas nicht stimmt

not-found-title = Wir kennen diesen Zahlungslink nicht
not-found-text = Bitte prüfen Sie, ob die Adresse vollständig ist, oder gehen Sie zurück in den Shop und beginnen Sie dort von Neuem.
foreign-title = Bitte nutzen Sie die Schaltflächen unserer Seite
foreign-text = Diese Anfrage kam nicht von unserer Bezahlseite, deshalb ist nichts geschehen. Öffnen Sie Ihren Zahlungslink erneut und fahren Sie dort fort.
too-large-title = Das war zu viel Text
too-large-text = Es ist nichts geschehen. Bitte gehen Sie zurück und kürzen Sie Ihre Eingabe.
unreadable-title = Das konnten wir nicht lesen
unreadable-text = Es ist nichts geschehen. Bitte gehen Sie zurück und versuchen Sie es erneut.
failure-title = Bei uns ist etwas schiefgegangen
failure-text = Bitte warten Sie einen Moment und öffnen Sie Ihren Zahlungslink erneut. Beginnen Sie inzwischen keine zweite Zahlung.
too-many-requests = Zu viele Anfragen aus Ihrem Netz. Warten Sie einen Moment und öffnen Sie Ihren Zahlungslink erneut.
busy = Gerade bezahlen sehr viele Menschen. Warten Sie einen Moment und öffnen Sie Ihren Zahlungslink erneut.
open-payment = Zahlung öffnen

## Einladungen von Wiederverkäufern

open-invitation = Einladung öffnen
no-invitation-title = Diese Einladung kennen wir nicht
no-invitation-text = Bitte prüfen Sie, ob die Adresse vollständig ist, oder fragen Sie den Absender.
invitation-foreign-text = Diese Anfrage kam nicht von unserer Seite, deshalb wurde nichts getan. Öffnen Sie die Einladung erneut und machen Sie dort weiter.
invitation-title = { $reseller } möchte Zahlungen für Sie annehmen
invitation-text = Wenn Sie zustimmen, kann { $reseller } Zahlungen für { $business } anlegen und Ihre Kundschaft zum Bezahlen schicken.
invitation-yours = Die Zahlungen und das Geld gehören Ihnen: Ihre eigenen Einstellungen und Grenzen gelten, und Sie erfahren von jeder Zahlung. Sie können die Zustimmung jederzeit zurücknehmen.
invitation-code = Zustimmungscode
invitation-code-hint = Sie erhalten ihn vom Betreiber dieses Dienstes, nicht von dem, der Sie einlädt. Er beginnt mit km_, gilt 24 Stunden und nur einmal. Geben Sie ihn nicht weiter.
invitation-accept = Zustimmen
invitation-decline = Ablehnen
invitation-until = Sie können bis zum { $date } (UTC) antworten.
invitation-footer = Zum Zustimmen ist Ihr Zustimmungscode nötig. Wer nur diese Adresse hat, kann ablehnen, sonst nichts.
invitation-authorized-title = Sie haben zugestimmt
invitation-authorized-text = { $reseller } kann jetzt Zahlungen für { $business } anlegen. Um das zurückzunehmen, wenden Sie sich an den Betreiber dieses Dienstes.
invitation-declined-title = Diese Einladung wurde abgelehnt
invitation-declined-text = { $reseller } kann ihretwegen nichts für Sie tun.
invitation-expired-title = Diese Einladung ist abgelaufen
invitation-expired-text = Sie konnte 30 Tage lang beantwortet werden. Wenn Sie noch zustimmen möchten, bitten Sie { $reseller } um eine neue.
invitation-revoked-title = Die Zustimmung wurde zurückgenommen
invitation-revoked-text = { $reseller } kann keine Zahlungen mehr für Sie anlegen.
invitation-error-missing = Bitte geben Sie Ihren Zustimmungscode ein.
invitation-error-wrong = Dieser Code ist falsch, verbraucht oder nicht mehr gültig. Nach fünf Fehlversuchen brauchen Sie einen neuen.
invitation-notice-decide = Bitte wählen Sie „Zustimmen“ oder „Ablehnen“.

## Anbieter

provider-unnamed = dem Zahlungsanbieter
