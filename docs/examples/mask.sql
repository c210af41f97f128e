-- Masks a shop's customers for development: names, e-mail addresses and payment cards.
--
-- Named in the configuration, [instance.NAME.clones]: mask = [{ sql = "/etc/zbackup/mask.sql" }]
-- It is run as an administrator, on a server that nobody else can reach yet. A statement that fails ends the making
-- of the clone. Statements end with a semicolon; a procedure's body needs no DELIMITER.

-- No two customers may get the same address: there is a unique key.
UPDATE shop.customers SET name = CONCAT('Customer ', id), email = CONCAT('customer', id, '@example.invalid');

-- Sixteen digits that no card has: 4000 00, and the row's number.
UPDATE shop.cards SET holder = CONCAT('Customer ', customer_id), number = CONCAT('400000', LPAD(id, 10, '0'));

-- Statements that production logged into tables may hold anything.
TRUNCATE TABLE mysql.general_log;
TRUNCATE TABLE mysql.slow_log;
