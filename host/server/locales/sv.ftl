# Det som betalare läser, på svenska.

## Runt varje sida

test-banner = TEST
test-banner-text = Detta är en testbetalning. Inga riktiga pengar flyttas.
footer-reassurance = Kort- och bankuppgifter anger du bara hos betaltjänsten. De når aldrig den här sidan.
footer-brand = Betalsida från Kassette
opens-new-tab = (öppnas i en ny flik)
language-menu = Språk
summary-pay = Du betalar till { $merchant }
summary-paid = Du har betalat till { $merchant }
summary-about = Betalning till { $merchant }
summary-order = Beställning
support = Frågor om din beställning?

## Välja

choose-title = Betala { $amount } till { $merchant }
choose-heading = Hur vill du betala?
choose-heading-again = Hur vill du betala nu?
choose-hint = Inget dras när du väljer. Du slutför betalningen i de följande stegen.
choose-with = Fortsätt med { $method }
choose-declined = Ditt senaste försök nekades.
choose-down = Kan inte väljas på ungefär en minut, eftersom { $provider } inte svarar.
choose-via = via { $provider }
choose-more = Mer om { $provider }
changed-title = Titta gärna en gång till
changed-text = { $method } skulle nu gå via { $provider }, på villkoren nedan. Fortsätt om du godkänner dem.
changed-continue = Fortsätt med { $provider }
changed-other = Visa alla betalsätt

## Vidare till betaltjänsten

going-title = Vi skickar dig till { $provider } …
going-text = Där betalar du { $amount }, och sedan kommer du tillbaka hit.
go-text-stuck = Använd knappen om inget händer.
go-link = Fortsätt till { $provider }
open-title = Din betalning väntar
open-text = Du har valt { $method } med { $provider }. Fortsätt där för att betala.
post-title = Vidare till { $provider }
post-text = Din betalning är förberedd. Knappen tar dig till { $provider }, där du bekräftar den.
another-way = Välj ett annat betalsätt
another-way-hint = Vi avslutar först betalningen hos { $provider }, så att du aldrig betalar två gånger.
lapsed-title = Det tog lite för lång tid
lapsed-text = Tiden för att betala med { $provider } är slut. Om du redan har betalat ska du inte betala igen: den här sidan visar din betalning så snart den har rapporterats.

## Frågor

questions-title = Några uppgifter till { $provider }
questions-text = { $provider } behöver detta för att ta emot din betalning. Vi lämnar det vidare bara för den här betalningen.
questions-submit = Fortsätt
question-optional = frivilligt
question-choose = Välj
question-email = E-postadress
question-phone = Telefonnummer
question-given-name = Förnamn
question-family-name = Efternamn
error-summary = Kontrollera de markerade svaren.
error-required = Fyll i det här fältet.
error-email = Ange en e-postadress, till exempel namn@example.org.
error-phone = Ange ett telefonnummer med landsnummer, till exempel +46 8 123 456 78.
error-length = Använd högst { $most } tecken.
error-choice = Välj ett av alternativen.
error-characters = Använd bara bokstäver, siffror och vanliga skiljetecken.
error-card = Ange inget kortnummer här.

## Anvisningar

show-title = Betala med { $method }
show-details = Betalningsuppgifter
show-details-hint = Klicka eller tryck på ett värde för att markera hela.
copy = Kopiera
show-qr = QR-kod för din bank- eller plånboksapp; den innehåller betalningsuppgifterna på den här sidan
show-link = Öppna appen
show-page = Öppna betalsidan
show-left = Tid kvar att betala: { $time }
show-paid = Jag har betalat – kontrollera nu

## Hur det står till med en betalning

completed-title = Betalningen är klar
completed-text = Tack. Du har betalat { $amount } till { $merchant }.
completed-test = Detta var ett test. Ingen har debiterats.
receipt-date = Datum
receipt-method = Betalsätt
receipt-by = { $method }, med { $provider }
receipt-reference = Referens
receipt-payee = Betalt till
receipt-paid = Betalt belopp
receipt-refunded = Återbetalt { $day }
receipt-rest = Betalt efter återbetalningar
receipt-keep = Skriv ut sidan eller spara den som PDF för att behålla en kopia. Den bekräftar betalningen och är ingen faktura.
completed-part-returned = Av detta har { $amount } betalats tillbaka.
completed-disputed = Den här betalningen har bestridits hos betaltjänsten.
second-received = Ytterligare en betalning har kommit in för den här beställningen. Fråga { $merchant } om den.
second-part-given-back = Ytterligare en betalning har kommit in för den här beställningen, och en del av den har betalats tillbaka. Fråga { $merchant } om resten.
second-given-back = Ytterligare en betalning har kommit in för den här beställningen, och den har betalats tillbaka.
accepted-text = { $merchant } har godtagit betalningen som betald.
returned-title = Dina pengar har betalats tillbaka
returned-text = Du hade betalat { $amount } till { $merchant }, och beloppet har betalats tillbaka.
money-received = Men pengar har kommit in för den. Betala inte igen, utan fråga { $merchant }.
money-part-given-back = Men pengar har kommit in för den, och en del har betalats tillbaka. Betala inte igen, utan fråga { $merchant } om resten.
money-given-back = Pengarna som hade kommit in för den har betalats tillbaka. Om du fortfarande vill betala börjar du om hos { $merchant }.
money-unclear = Det är inte säkert om några pengar har dragits. Betala inte igen, utan fråga { $merchant }.
processing-title = Din betalning behandlas
processing-text = Det tar oftast bara ett ögonblick. Du behöver inte göra något.
verification-title = Väntar på slutlig bekräftelse
verification-text = Din betalning har kommit in och håller på att bekräftas. Det kan ta en stund. Du kan stänga den här sidan; { $merchant } får besked.
verification-awaited = Vi väntar på att { $provider } ska bekräfta din betalning. Betala inte igen. Du kan stänga den här sidan; { $merchant } får besked.
review-title = Din betalning kontrolleras
review-text = En person tittar på den innan den genomförs. Betala inte igen. { $merchant } får veta resultatet.
review-part-given-back = En del av pengarna som kom in har betalats tillbaka.
review-given-back = Pengarna som kom in har betalats tillbaka.
failed-title = Betalningen gick inte igenom
failed-text = Inga pengar har dragits. Om du vill försöka igen börjar du en ny betalning hos { $merchant }.
cancelled-title = Betalningen avbröts
cancelled-text = Inga pengar har dragits. Om du fortfarande vill betala börjar du om hos { $merchant }.
expired-title = Betalningen har gått ut
expired-text = Den betalades inte i tid, och inga pengar har dragits. Om du fortfarande vill betala börjar du om hos { $merchant }.
expired-late = Om du betalade alldeles nyss ska du inte betala igen, utan fråga { $merchant }. En betalning som ändå kommer in kontrolleras.
checking-title = Ett ögonblick
checking-text = { $provider } har inte svarat än. Vi tar reda på det innan något annat händer, så att du aldrig betalar två gånger.
checking-retry = Fråga igen
waiting-title = Väntar på { $provider }
waiting-text = Så snart { $provider } bekräftar din betalning ser du det här. Inte klar än? Du kan fortsätta.
waiting-declined = Det senaste försöket med { $provider } avvisades. Du kan försöka igen där. Ett annat sätt kan väljas när { $provider } meddelar att försöket är över.
declined-title = Betalningen nekades
ended-title = Du har inte betalat än
ended-text = Betalningen med { $provider } har avslutats, och inga pengar har dragits.
try-again = Du kan försöka igen eller välja ett annat sätt.
pay-in-shop = Om du fortfarande vill betala börjar du om hos { $merchant }.
choose-again = Välj betalsätt
see-current = Visa betalningen
direct-title = Fortsätt i butiken
direct-text = Det är { $merchant } som startar betalningen. Gå tillbaka till butiken och välj att betala där.
unavailable-title = Det går inte att betala just nu
unavailable-text = Inget betalsätt är tillgängligt för det här beloppet just nu. Försök igen senare eller fråga { $merchant }.
back-to-merchant = Tillbaka till butiken
back-soon = Om några sekunder kommer du automatiskt tillbaka till { $merchant }.
stay = Stanna på den här sidan
close-page = Du kan stänga den här sidan nu.
updates-itself = Den här sidan uppdateras av sig själv.
updates-pause = Pausa
updates-paused = Uppdateringen är pausad.
check-again = Kontrollera igen

## Meddelanden efter ett val

notice-still-open = Betalningen hos { $provider } kunde inte säkert avslutas. Fortsätt med den eller försök igen om en liten stund, så att du aldrig betalar två gånger.
notice-not-available = Det betalsättet är inte längre tillgängligt.
choose-another = Välj ett annat.
not-taken = Inga pengar har dragits för det här försöket.
one-try-left = Ett försök återstår: välj ett betalsätt som sannolikt fungerar.
declined-funds = Betalningen nekades: det fanns inte tillräckligt med pengar.
advice-funds = Använd ett annat kort eller betalsätt, eller fråga din bank om saldo och gräns.
declined-expired = Betalningen nekades: kortet har gått ut.
advice-expired = Använd ett annat kort, eller kontrollera datumet som du angav.
declined-authentication = Din bank kunde inte bekräfta att det är du.
advice-authentication = Försök igen och bekräfta i bankens app, eller välj ett annat betalsätt.
declined-limit = Betalningen nekades: beloppet är över en gräns.
advice-limit = Be din bank höja gränsen, eller välj ett annat betalsätt.
declined-bank = Betalningen nekades utan att någon orsak angavs.
advice-bank = Din bank kan kanske säga varför. Använd ett annat kort, eller välj ett annat betalsätt.
declined-cancelled = Du avbröt betalningen.
declined-provider = { $provider } tog inte emot betalningen.
down-title = { $provider } svarar inte just nu.
down-text = Betalningen startades inte där, och inga pengar har dragits.
advice-down = Välj ett annat sätt, eller kontrollera igen om en minut.
notice-forbidden = Betalningar till { $merchant } kan inte startas just nu.
notice-conflict = Det går inte längre. Så här ser din betalning ut nu.
notice-unsettled = Betaltjänsten har inte svarat än. Vänta ett ögonblick.
notice-choose = Välj ett av betalsätten.

## När något är fel

not-found-title = Vi känner inte till den här betallänken
not-found-text = Kontrollera att adressen är fullständig, eller gå tillbaka till butiken och börja om där.
foreign-title = Använd knapparna på vår sida
foreign-text = Begäran kom inte från vår betalsida, så inget har hänt. Öppna din betallänk igen och fortsätt därifrån.
too-large-title = Det var för mycket text
too-large-text = Inget har hänt. Gå tillbaka och korta det du skrev.
unreadable-title = Vi kunde inte läsa det där
unreadable-text = Inget har hänt. Gå tillbaka och försök igen.
failure-title = Något gick fel hos oss
failure-text = Vänta ett ögonblick och öppna din betallänk igen. Börja ingen ny betalning under tiden.
too-many-requests = För många förfrågningar från ditt nätverk. Vänta ett ögonblick och öppna din betallänk igen.
busy = Det är många som betalar just nu. Vänta ett ögonblick och öppna din betallänk igen.
open-payment = Öppna betalningen

## Inbjudningar från återförsäljare

open-invitation = Öppna inbjudan
no-invitation-title = Vi känner inte till den här inbjudan
no-invitation-text = Kontrollera att adressen är fullständig, eller fråga avsändaren.
invitation-foreign-text = Begäran kom inte från vår sida, så inget har hänt. Öppna inbjudan igen och fortsätt därifrån.
invitation-title = { $reseller } vill ta emot betalningar åt dig
invitation-text = Om du godkänner kan { $reseller } skapa betalningar för { $business } och skicka dina kunder att betala.
invitation-yours = Betalningarna och pengarna är dina: dina egna inställningar och gränser gäller, och du får besked om varje betalning. Du kan ta tillbaka godkännandet när som helst.
invitation-code = Samtyckeskod
invitation-code-hint = Du får den av den som driver tjänsten, inte av den som bjuder in. Den börjar med km_, gäller i 24 timmar och fungerar en gång. Lämna den inte vidare till någon.
invitation-accept = Godkänn
invitation-decline = Avböj
invitation-until = Du kan svara till och med { $date } (UTC).
invitation-footer = För att godkänna behövs din samtyckeskod. Med bara den här adressen går det att avböja och inget annat.
invitation-authorized-title = Du har godkänt
invitation-authorized-text = { $reseller } kan nu skapa betalningar för { $business }. Vänd dig till den som driver tjänsten för att ta tillbaka det.
invitation-declined-title = Inbjudan har avböjts
invitation-declined-text = { $reseller } kan inte göra något för dig med den.
invitation-expired-title = Inbjudan har gått ut
invitation-expired-text = Det gick att svara i 30 dagar. Om du fortfarande vill godkänna ber du { $reseller } om en ny.
invitation-revoked-title = Godkännandet har tagits tillbaka
invitation-revoked-text = { $reseller } kan inte längre skapa betalningar åt dig.
invitation-error-missing = Ange din samtyckeskod.
invitation-error-wrong = Koden är fel, använd eller inte längre giltig. Efter fem felaktiga försök behöver du en ny.
invitation-notice-decide = Välj ”Godkänn” eller ”Avböj”.

## Betaltjänster

provider-unnamed = betaltjänsten
