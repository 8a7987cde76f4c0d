# Lo que leen quienes pagan, en español.

## En todas las páginas

test-banner = TEST
test-banner-text = Este es un pago de prueba. No se mueve dinero real.
footer-reassurance = Los datos de su tarjeta y de su banco solo los introduce con el proveedor de pago. Nunca llegan a esta página.
footer-brand = Página de pago de Kassette
opens-new-tab = (se abre en una pestaña nueva)
language-menu = Idioma
summary-pay = Usted paga a { $merchant }
summary-paid = Ha pagado a { $merchant }
summary-about = Pago a { $merchant }
summary-order = Pedido
support = ¿Preguntas sobre su pedido?

## Elegir

choose-title = Pagar { $amount } a { $merchant }
choose-heading = ¿Cómo desea pagar?
choose-heading-again = ¿Cómo desea pagar ahora?
choose-hint = Al elegir todavía no se le cobra nada. El pago se completa en los pasos siguientes.
choose-with = Continuar con { $method }
choose-declined = Su último intento fue rechazado.
choose-down = No disponible durante un minuto aproximadamente, porque { $provider } no responde.
choose-via = a través de { $provider }
choose-more = Más sobre { $provider }
changed-title = Por favor, revíselo una vez más
changed-text = { $method } pasaría ahora por { $provider }, con las condiciones siguientes. Continúe si está de acuerdo.
changed-continue = Continuar con { $provider }
changed-other = Ver todas las formas de pago

## Hacia el proveedor

going-title = Le llevamos a { $provider } …
going-text = Allí paga { $amount } y después vuelve aquí.
go-text-stuck = Si no ocurre nada, use el botón.
go-link = Continuar en { $provider }
open-title = Su pago le espera
open-text = Ha elegido { $method } con { $provider }. Continúe allí para pagar.
post-title = Continúa en { $provider }
post-text = Su pago está preparado. El botón le lleva a { $provider }, donde lo confirma.
another-way = Elegir otra forma de pago
another-way-hint = Primero cerramos el pago con { $provider }, para que nunca pague dos veces.
lapsed-title = Ha pasado demasiado tiempo
lapsed-text = El plazo para pagar con { $provider } ha terminado. Si ya ha pagado, no pague otra vez: esta página mostrará su pago en cuanto se comunique.

## Preguntas

questions-title = Algunos datos para { $provider }
questions-text = { $provider } los necesita para aceptar su pago. Los transmitimos solo para este pago.
questions-submit = Continuar
question-optional = opcional
question-choose = Elija una opción
question-email = Correo electrónico
question-phone = Número de teléfono
question-given-name = Nombre
question-family-name = Apellidos
error-summary = Por favor, revise las respuestas marcadas.
error-required = Por favor, rellene este campo.
error-email = Por favor, escriba una dirección de correo, por ejemplo nombre@example.org.
error-phone = Por favor, escriba un número de teléfono con el prefijo del país, por ejemplo +34 912 345 678.
error-length = Por favor, use como máximo { $most } caracteres.
error-choice = Por favor, elija una de las opciones.
error-characters = Por favor, use solo letras, cifras y signos de puntuación habituales.
error-card = Por favor, no introduzca aquí un número de tarjeta.

## Instrucciones

show-title = Pagar con { $method }
show-details = Datos del pago
show-details-hint = Haga clic en un valor o tóquelo para seleccionarlo entero.
copy = Copiar
show-qr = Código QR para la aplicación de su banco o monedero; contiene los datos de pago de esta página
show-link = Abrir la aplicación
show-page = Abrir la página de pago
show-left = Tiempo restante para pagar: { $time }
show-paid = Ya he pagado: comprobar ahora

## En qué estado está un pago

completed-title = Pago completado
completed-text = Gracias. Ha pagado { $amount } a { $merchant }.
completed-test = Esto era una prueba. No se ha cobrado a nadie.
receipt-date = Fecha
receipt-method = Forma de pago
receipt-by = { $method }, con { $provider }
receipt-reference = Referencia
receipt-payee = Pagado a
receipt-paid = Importe pagado
receipt-refunded = Devuelto el { $day }
receipt-rest = Pagado tras las devoluciones
receipt-keep = Para conservar una copia, imprima esta página o guárdela como PDF. Confirma el pago y no es una factura.
completed-part-returned = Se han devuelto { $amount }.
completed-disputed = Este pago está en disputa ante el proveedor de pagos.
second-received = Se ha recibido además otro pago por este pedido. Por favor, consulte a { $merchant }.
second-part-given-back = Se ha recibido además otro pago por este pedido y se ha devuelto una parte. Por favor, consulte a { $merchant } por el resto.
second-given-back = Se ha recibido además otro pago por este pedido y se ha devuelto.
accepted-text = { $merchant } ha aceptado este pago como pagado.
returned-title = Se ha devuelto su dinero
returned-text = Usted había pagado { $amount } a { $merchant }, y ese importe se ha devuelto.
money-received = Sin embargo, se ha recibido dinero. Por favor, no pague otra vez y consulte a { $merchant }.
money-part-given-back = Sin embargo, se ha recibido dinero y se ha devuelto una parte. Por favor, no pague otra vez y consulte a { $merchant } por el resto.
money-given-back = El dinero que se había recibido se ha devuelto. Si todavía desea pagar, empiece de nuevo en { $merchant }.
money-unclear = No es seguro si se ha cobrado algo. Por favor, no pague otra vez y consulte a { $merchant }.
processing-title = Su pago se está procesando
processing-text = Suele tardar solo un momento. No tiene que hacer nada.
verification-title = A la espera de la confirmación final
verification-text = Su pago ha llegado y se está confirmando. Puede tardar un poco. Puede cerrar esta página; se informará a { $merchant }.
verification-awaited = Esperamos a que { $provider } confirme su pago. Por favor, no pague otra vez. Puede cerrar esta página; se informará a { $merchant }.
review-title = Su pago se está revisando
review-text = Una persona lo examina antes de que se ejecute. Por favor, no pague otra vez. Se informará del resultado a { $merchant }.
review-part-given-back = Se ha devuelto una parte del dinero recibido.
review-given-back = El dinero recibido se ha devuelto.
failed-title = Este pago no se ha realizado
failed-text = No se ha cobrado nada. Para intentarlo de nuevo, inicie un pago nuevo en { $merchant }.
cancelled-title = Este pago se ha anulado
cancelled-text = No se ha cobrado nada. Si todavía desea pagar, empiece de nuevo en { $merchant }.
expired-title = Este pago ha caducado
expired-text = No se pagó a tiempo y no se ha cobrado nada. Si todavía desea pagar, empiece de nuevo en { $merchant }.
expired-late = Si acaba de pagar, no pague otra vez y consulte a { $merchant }. Un pago que llegue todavía se revisará.
checking-title = Un momento, por favor
checking-text = { $provider } todavía no ha respondido. Lo aclaramos antes de que ocurra nada más, para que nunca pague dos veces.
checking-retry = Preguntar de nuevo
waiting-title = Esperando a { $provider }
waiting-text = En cuanto { $provider } confirme su pago, lo verá aquí. ¿Aún no ha terminado? Puede continuar.
waiting-declined = El último intento con { $provider } fue rechazado. Puede intentarlo allí otra vez. Podrá elegir otra forma de pago cuando { $provider } comunique que el intento ha terminado.
declined-title = El pago ha sido rechazado
ended-title = Todavía no ha pagado
ended-text = El pago con { $provider } ha terminado y no se ha cobrado nada.
try-again = Puede intentarlo de nuevo o elegir otra forma de pago.
pay-in-shop = Si todavía desea pagar, empiece de nuevo en { $merchant }.
choose-again = Elegir cómo pagar
see-current = Ver el pago
direct-title = Por favor, continúe en la tienda
direct-text = Este pago lo inicia { $merchant }. Vuelva a la tienda y elija pagar allí.
unavailable-title = Ahora mismo no es posible pagar
unavailable-text = En este momento no hay ninguna forma de pago disponible para este importe. Inténtelo más tarde o consulte a { $merchant }.
back-to-merchant = Volver a la tienda
back-soon = En unos segundos volverá automáticamente a { $merchant }.
stay = Quedarse en esta página
close-page = Ya puede cerrar esta página.
updates-itself = Esta página se actualiza sola.
updates-pause = Pausar
updates-paused = La actualización está en pausa.
check-again = Comprobar de nuevo

## Avisos tras una elección

notice-still-open = No se ha podido cerrar con seguridad el pago con { $provider }. Para que nunca pague dos veces, continúelo o inténtelo de nuevo dentro de un momento.
notice-not-available = Esa forma de pago ya no está disponible.
choose-another = Por favor, elija otra.
not-taken = No se ha cobrado nada por este intento.
one-try-left = Queda un intento: elija una forma de pago que probablemente funcione.
declined-funds = El pago ha sido rechazado: no había saldo suficiente.
advice-funds = Use otra tarjeta u otra forma de pago, o consulte a su banco el saldo y el límite.
declined-expired = El pago ha sido rechazado: la tarjeta ha caducado.
advice-expired = Use otra tarjeta o compruebe la fecha que ha introducido.
declined-authentication = Su banco no pudo confirmar que es usted.
advice-authentication = Inténtelo de nuevo y confirme en la aplicación de su banco, o elija otra forma de pago.
declined-limit = El pago ha sido rechazado: el importe supera un límite.
advice-limit = Pida a su banco que suba el límite o elija otra forma de pago.
declined-bank = El pago ha sido rechazado sin indicar el motivo.
advice-bank = Es posible que su banco le diga el motivo. Use otra tarjeta o elija otra forma de pago.
declined-cancelled = Usted ha cancelado el pago.
declined-provider = { $provider } no ha aceptado el pago.
down-title = { $provider } no responde en este momento.
down-text = Su pago no se ha iniciado allí y no se ha cobrado nada.
advice-down = Elija otra forma de pago o compruebe de nuevo dentro de un minuto.
notice-forbidden = En este momento no se pueden iniciar pagos a { $merchant }.
notice-conflict = Eso ya no es posible. Este es el estado actual de su pago.
notice-unsettled = El proveedor todavía no ha respondido. Espere un momento, por favor.
notice-choose = Por favor, elija una de las formas de pago.

## Cuando algo va mal

not-found-title = No conocemos este enlace de pago
not-found-text = Compruebe que la dirección está completa, o vuelva a la tienda y empiece de nuevo desde allí.
foreign-title = Por favor, use los botones de nuestra página
foreign-text = Esta solicitud no venía de nuestra página de pago, así que no se ha hecho nada. Abra de nuevo su enlace de pago y continúe desde allí.
too-large-title = El texto era demasiado largo
too-large-text = No se ha hecho nada. Por favor, vuelva atrás y acorte lo que ha escrito.
unreadable-title = No hemos podido leerlo
unreadable-text = No se ha hecho nada. Por favor, vuelva atrás e inténtelo de nuevo.
failure-title = Algo ha fallado por nuestra parte
failure-text = Espere un momento y abra de nuevo su enlace de pago. Mientras tanto, no inicie un segundo pago.
too-many-requests = Demasiadas solicitudes desde su red. Espere un momento y abra de nuevo su enlace de pago.
busy = En este momento hay muchas personas pagando. Espere un momento y abra de nuevo su enlace de pago.
open-payment = Abrir el pago

## Invitaciones de revendedores

open-invitation = Abrir la invitación
no-invitation-title = No conocemos esta invitación
no-invitation-text = Compruebe que la dirección está completa o pregunte a quien se la envió.
invitation-foreign-text = Esta petición no vino de nuestra página, así que no se hizo nada. Abra de nuevo la invitación y continúe desde ahí.
invitation-title = { $reseller } quiere cobrar pagos para usted
invitation-text = Si acepta, { $reseller } podrá crear pagos para { $business } y enviar a sus clientes a pagar.
invitation-yours = Los pagos y el dinero son suyos: valen sus propios ajustes y límites, y se le informa de cada pago. Puede retirar su consentimiento en cualquier momento.
invitation-code = Código de consentimiento
invitation-code-hint = Se lo da el operador de este servicio, no quien le invita. Empieza por km_, vale 24 horas y sirve una sola vez. No se lo pase a nadie.
invitation-accept = Aceptar
invitation-decline = Rechazar
invitation-until = Puede responder hasta el { $date } (UTC).
invitation-footer = Para aceptar hace falta su código de consentimiento. Con esta dirección sola se puede rechazar y nada más.
invitation-authorized-title = Ha aceptado
invitation-authorized-text = { $reseller } ya puede crear pagos para { $business }. Para retirarlo, diríjase al operador de este servicio.
invitation-declined-title = Esta invitación fue rechazada
invitation-declined-text = { $reseller } no puede hacer nada para usted gracias a ella.
invitation-expired-title = Esta invitación ha caducado
invitation-expired-text = Se podía responder durante 30 días. Si aún quiere aceptar, pida una nueva a { $reseller }.
invitation-revoked-title = El consentimiento se retiró
invitation-revoked-text = { $reseller } ya no puede crear pagos para usted.
invitation-error-missing = Introduzca su código de consentimiento.
invitation-error-wrong = Este código es incorrecto, ya se usó o ya no vale. Tras cinco intentos fallidos necesita uno nuevo.
invitation-notice-decide = Elija «Aceptar» o «Rechazar».

## Proveedores

provider-unnamed = el proveedor de pago
