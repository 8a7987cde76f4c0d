# Amit a fizetők olvasnak, magyarul.

## Minden oldalon

test-banner = TESZT
test-banner-text = Ez egy próbafizetés. Valódi pénz nem mozog.
footer-reassurance = Kártya- és bankszámlaadatait csak a fizetési szolgáltatónál adja meg. Ezek soha nem jutnak el erre az oldalra.
footer-brand = Kassette fizetőoldal
opens-new-tab = (új lapon nyílik meg)
language-menu = Nyelv
summary-pay = Fizetés { $merchant } részére
summary-paid = Kifizetve { $merchant } részére
summary-about = { $merchant } részére indított fizetés
summary-order = Rendelés
support = Kérdése van a rendeléséről?

## Választás

choose-title = { $amount } fizetése { $merchant } részére
choose-heading = Hogyan szeretne fizetni?
choose-heading-again = Hogyan szeretne most fizetni?
choose-hint = A választással még nem fizet. A fizetést a következő lépésekben hajthatja végre.
choose-with = Folytatás: { $method }
choose-declined = A legutóbbi próbálkozását elutasították.
choose-down = Körülbelül egy percig nem választható, mert a szolgáltató ({ $provider }) nem válaszol.
choose-via = szolgáltató: { $provider }
choose-more = Bővebben: { $provider }
changed-title = Kérjük, nézze meg még egyszer
changed-text = { $method }: a fizetés most más szolgáltatón keresztül történne ({ $provider }), az alábbi feltételekkel. Ha egyetért, folytassa.
changed-continue = Folytatás itt: { $provider }
changed-other = Az összes fizetési mód megtekintése

## A szolgáltatóhoz

going-title = Átirányítás: { $provider } …
going-text = Ott kifizeti az összeget ({ $amount }), majd visszatér ide.
go-text-stuck = Ha semmi sem történik, használja a gombot.
go-link = Tovább ide: { $provider }
open-title = A fizetés Önre vár
open-text = Az Ön választása: { $method } ({ $provider }). A fizetéshez folytassa ott.
post-title = Tovább ide: { $provider }
post-text = A fizetés elő van készítve. A gomb a szolgáltató ({ $provider }) oldalára viszi, ahol jóváhagyhatja.
another-way = Másik fizetési mód választása
another-way-hint = Előbb lezárjuk a megkezdett fizetést ({ $provider }), hogy soha ne fizessen kétszer.
lapsed-title = Ez egy kicsit túl sokáig tartott
lapsed-text = A fizetésre szánt idő letelt ({ $provider }). Ha már fizetett, ne fizessen újra: ez az oldal megmutatja a fizetését, amint értesülünk róla.

## Kérdések

questions-title = Néhány adat ({ $provider })
questions-text = A fizetéshez a szolgáltatónak ({ $provider }) szüksége van ezekre. Csak ehhez a fizetéshez adjuk tovább.
questions-submit = Tovább
question-optional = nem kötelező
question-choose = Kérjük, válasszon
question-email = E-mail-cím
question-phone = Telefonszám
question-given-name = Utónév
question-family-name = Vezetéknév
error-summary = Kérjük, ellenőrizze a megjelölt válaszokat.
error-required = Kérjük, töltse ki ezt a mezőt.
error-email = Kérjük, adjon meg egy e-mail-címet, például nev@example.org.
error-phone = Kérjük, adjon meg egy telefonszámot országhívószámmal, például +36 1 234 5678.
error-length = Kérjük, legfeljebb { $most } karaktert használjon.
error-choice = Kérjük, válasszon a lehetőségek közül.
error-characters = Kérjük, csak betűket, számjegyeket és szokásos írásjeleket használjon.
error-card = Kérjük, ne adjon meg itt kártyaszámot.

## Útmutató

show-title = Fizetés: { $method }
show-details = Fizetési adatok
show-details-hint = Kattintson vagy koppintson egy értékre a teljes kijelöléséhez.
copy = Másolás
show-qr = QR-kód banki vagy tárcaalkalmazáshoz; az oldal fizetési adatait tartalmazza
show-link = Alkalmazás megnyitása
show-page = Fizetőoldal megnyitása
show-left = A fizetésre hátralévő idő: { $time }
show-paid = Fizettem – ellenőrzés most

## Hol tart a fizetés

completed-title = A fizetés sikerült
completed-text = Köszönjük. Ön { $amount } összeget fizetett { $merchant } részére.
completed-test = Ez próba volt. Senkit sem terheltünk meg.
receipt-date = Dátum
receipt-method = Fizetési mód
receipt-by = { $method }, szolgáltató: { $provider }
receipt-reference = Hivatkozás
receipt-payee = Kedvezményezett
receipt-paid = Kifizetett összeg
receipt-refunded = Visszatérítve: { $day }
receipt-rest = Fizetve visszatérítés után
receipt-keep = Megőrzéshez nyomtassa ki vagy mentse PDF-be ezt az oldalt. A fizetést igazolja, és nem számla.
completed-part-returned = Ebből { $amount } összeget visszatérítettek.
completed-disputed = Ezt a fizetést a fizetési szolgáltatónál vitatják.
second-received = Ehhez a rendeléshez egy további fizetés is érkezett. Kérjük, forduljon a kereskedőhöz: { $merchant }.
second-part-given-back = Ehhez a rendeléshez egy további fizetés is érkezett, amelynek egy részét visszatérítették. A többi ügyében kérjük, forduljon a kereskedőhöz: { $merchant }.
second-given-back = Ehhez a rendeléshez egy további fizetés is érkezett, amelyet visszatérítettek.
accepted-text = { $merchant } kifizetettként fogadta el ezt a fizetést.
returned-title = A pénzét visszatérítették
returned-text = Ön { $amount } összeget fizetett { $merchant } részére, és ezt visszatérítették.
money-received = Pénz azonban érkezett hozzá. Kérjük, ne fizessen újra, és forduljon a kereskedőhöz: { $merchant }.
money-part-given-back = Pénz azonban érkezett hozzá, és egy részét visszatérítették. Kérjük, ne fizessen újra, és a többi ügyében forduljon a kereskedőhöz: { $merchant }.
money-given-back = A hozzá beérkezett pénzt visszatérítették. Ha továbbra is fizetni szeretne, kezdje újra a kereskedőnél: { $merchant }.
money-unclear = Nem tudni biztosan, történt-e terhelés. Kérjük, ne fizessen újra, és forduljon a kereskedőhöz: { $merchant }.
processing-title = A fizetés feldolgozás alatt áll
processing-text = Ez általában csak egy pillanat. Nincs semmi teendője.
verification-title = Várakozás a végleges megerősítésre
verification-text = A fizetés megérkezett, és megerősítése folyamatban van. Ez eltarthat egy ideig. Ezt az oldalt bezárhatja; { $merchant } értesítést kap.
verification-awaited = Arra várunk, hogy a szolgáltató ({ $provider }) megerősítse a fizetést. Kérjük, ne fizessen újra. Ezt az oldalt bezárhatja; { $merchant } értesítést kap.
review-title = A fizetést ellenőrizzük
review-text = Mielőtt teljesül, egy munkatárs megnézi. Kérjük, ne fizessen újra. { $merchant } értesül az eredményről.
review-part-given-back = A beérkezett pénz egy részét visszatérítették.
review-given-back = A beérkezett pénzt visszatérítették.
failed-title = Ez a fizetés nem sikerült
failed-text = Terhelés nem történt. Ha újra szeretné próbálni, indítson új fizetést a kereskedőnél: { $merchant }.
cancelled-title = Ezt a fizetést visszavonták
cancelled-text = Terhelés nem történt. Ha továbbra is fizetni szeretne, kezdje újra a kereskedőnél: { $merchant }.
expired-title = Ez a fizetés lejárt
expired-text = Nem fizették ki időben, és terhelés nem történt. Ha továbbra is fizetni szeretne, kezdje újra a kereskedőnél: { $merchant }.
expired-late = Ha közvetlenül előtte fizetett, ne fizessen újra, és forduljon a kereskedőhöz: { $merchant }. A később beérkező fizetést megvizsgáljuk.
checking-title = Egy pillanat türelmet
checking-text = Még nem érkezett válasz ({ $provider }). Ezt tisztázzuk, mielőtt bármi más történne, hogy soha ne fizessen kétszer.
checking-retry = Kérdezés újra
waiting-title = Várakozás a megerősítésre: { $provider }
waiting-text = Amint a szolgáltató ({ $provider }) megerősíti a fizetést, itt látni fogja. Még nem végzett? Folytathatja.
waiting-declined = Az utolsó próbálkozást elutasították ({ $provider }). Ott újra megpróbálhatja. Más fizetési mód akkor választható, ha a szolgáltató jelzi, hogy a próbálkozás véget ért.
declined-title = A fizetést elutasították
ended-title = Még nem fizetett
ended-text = A megkezdett fizetés ({ $provider }) véget ért, és terhelés nem történt.
try-again = Megpróbálhatja újra, vagy választhat másik módot.
pay-in-shop = Ha továbbra is fizetni szeretne, kezdje újra a kereskedőnél: { $merchant }.
choose-again = Fizetési mód választása
see-current = A fizetés megtekintése
direct-title = Kérjük, folytassa az áruházban
direct-text = Ezt a fizetést a kereskedő indítja: { $merchant }. Térjen vissza az áruházba, és ott válassza a fizetést.
unavailable-title = Most nem lehet fizetni
unavailable-text = Ehhez az összeghez jelenleg nincs elérhető fizetési mód. Kérjük, próbálja meg később, vagy forduljon a kereskedőhöz: { $merchant }.
back-to-merchant = Vissza az áruházba
back-soon = Néhány másodperc múlva automatikusan visszatér ide: { $merchant }.
stay = Maradok ezen az oldalon
close-page = Ezt az oldalt most bezárhatja.
updates-itself = Ez az oldal magától frissül.
updates-pause = Szünet
updates-paused = A frissítés szünetel.
check-again = Ellenőrzés újra

## Üzenetek választás után

notice-still-open = A megkezdett fizetést ({ $provider }) nem sikerült biztosan lezárni. Hogy soha ne fizessen kétszer, folytassa azt, vagy próbálja újra kis idő múlva.
notice-not-available = Ez a fizetési mód már nem elérhető.
choose-another = Kérjük, válasszon másikat.
not-taken = Ezért a próbálkozásért terhelés nem történt.
one-try-left = Egy próbálkozás maradt: olyan fizetési módot válasszon, amely várhatóan működik.
declined-funds = A fizetést elutasították: nem volt elegendő fedezet.
advice-funds = Használjon másik kártyát vagy fizetési módot, vagy kérdezze meg bankját az egyenlegéről és a limitjéről.
declined-expired = A fizetést elutasították: a kártya lejárt.
advice-expired = Használjon másik kártyát, vagy ellenőrizze a megadott dátumot.
declined-authentication = A bankja nem tudta megerősíteni, hogy Ön az.
advice-authentication = Próbálja újra, és erősítse meg a bankja alkalmazásában, vagy válasszon másik fizetési módot.
declined-limit = A fizetést elutasították: az összeg túllép egy limitet.
advice-limit = Kérje bankját a limit emelésére, vagy válasszon másik fizetési módot.
declined-bank = A fizetést indoklás nélkül elutasították.
advice-bank = A bankja talán megmondja az okát. Használjon másik kártyát, vagy válasszon másik fizetési módot.
declined-cancelled = Ön megszakította a fizetést.
declined-provider = A szolgáltató ({ $provider }) nem fogadta el a fizetést.
down-title = A szolgáltató ({ $provider }) most nem válaszol.
down-text = A fizetés ott nem indult el, és terhelés nem történt.
advice-down = Válasszon másik módot, vagy ellenőrizze újra egy perc múlva.
notice-forbidden = { $merchant } részére jelenleg nem indítható fizetés.
notice-conflict = Ez már nem lehetséges. A fizetés jelenlegi állása itt látható.
notice-unsettled = A szolgáltató még nem válaszolt. Kérjük, várjon egy pillanatot.
notice-choose = Kérjük, válasszon a fizetési módok közül.

## Ha valami nincs rendben

not-found-title = Ezt a fizetési hivatkozást nem ismerjük
not-found-text = Kérjük, ellenőrizze, hogy a cím teljes-e, vagy térjen vissza az áruházba, és kezdje ott újra.
foreign-title = Kérjük, az oldalunk gombjait használja
foreign-text = Ez a kérés nem a fizetőoldalunkról érkezett, ezért nem történt semmi. Nyissa meg újra a fizetési hivatkozást, és onnan folytassa.
too-large-title = Ez túl sok szöveg volt
too-large-text = Nem történt semmi. Kérjük, lépjen vissza, és rövidítse le, amit beírt.
unreadable-title = Ezt nem tudtuk elolvasni
unreadable-text = Nem történt semmi. Kérjük, lépjen vissza, és próbálja újra.
failure-title = Nálunk valami hiba történt
failure-text = Kérjük, várjon egy pillanatot, és nyissa meg újra a fizetési hivatkozást. Közben ne indítson második fizetést.
too-many-requests = Túl sok kérés érkezett az Ön hálózatáról. Várjon egy pillanatot, és nyissa meg újra a fizetési hivatkozást.
busy = Most nagyon sokan fizetnek egyszerre. Várjon egy pillanatot, és nyissa meg újra a fizetési hivatkozást.
open-payment = A fizetés megnyitása

## Viszonteladók meghívói

open-invitation = A meghívó megnyitása
no-invitation-title = Ezt a meghívót nem ismerjük
no-invitation-text = Kérjük, ellenőrizze, hogy a cím teljes-e, vagy kérdezze meg a feladót.
invitation-foreign-text = Ez a kérés nem az oldalunkról érkezett, ezért nem történt semmi. Nyissa meg újra a meghívót, és onnan folytassa.
invitation-title = { $reseller } fizetéseket szeretne fogadni az Ön számára
invitation-text = Ha elfogadja, { $reseller } fizetéseket hozhat létre { $business } részére, és fizetni küldheti az Ön vásárlóit.
invitation-yours = A fizetések és a pénz az Önéi: az Ön beállításai és korlátai érvényesek, és minden fizetésről értesül. Hozzájárulását bármikor visszavonhatja.
invitation-code = Hozzájárulási kód
invitation-code-hint = A szolgáltatás üzemeltetőjétől kapja, nem attól, aki meghívja. km_ kezdetű, 24 óráig érvényes, és egyszer használható. Ne adja tovább senkinek.
invitation-accept = Elfogadom
invitation-decline = Elutasítom
invitation-until = A válasz határideje: { $date } (UTC).
invitation-footer = Az elfogadáshoz szükség van a hozzájárulási kódra. Aki csak ezt a címet ismeri, legfeljebb elutasíthatja.
invitation-authorized-title = Elfogadta
invitation-authorized-text = { $reseller } mostantól fizetéseket hozhat létre { $business } részére. Ha vissza szeretné vonni, forduljon a szolgáltatás üzemeltetőjéhez.
invitation-declined-title = Ezt a meghívót elutasították
invitation-declined-text = { $reseller } ez alapján semmit sem tehet az Ön nevében.
invitation-expired-title = Ez a meghívó lejárt
invitation-expired-text = 30 napig lehetett válaszolni rá. Ha továbbra is el szeretné fogadni, kérjen újat tőle: { $reseller }.
invitation-revoked-title = A hozzájárulást visszavonták
invitation-revoked-text = { $reseller } már nem hozhat létre fizetéseket az Ön számára.
invitation-error-missing = Kérjük, adja meg a hozzájárulási kódot.
invitation-error-wrong = Ez a kód hibás, felhasznált vagy már nem érvényes. Öt hibás próbálkozás után új kódra van szükség.
invitation-notice-decide = Kérjük, válassza az „Elfogadom” vagy az „Elutasítom” gombot.

## Szolgáltatók

provider-unnamed = fizetési szolgáltató
