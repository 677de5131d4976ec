// Package shop is the small web shop of the demo: one process beside one agent,
// with pages that need no JavaScript and a few JSON answers.
//
// It keeps no state. The cart is in the Rondel session that the proxy names,
// one counter for each product, and is reached by the HTTP API of the agent
// beside the shop, or of another one while that is down. Each change carries an
// idempotency key, so that a repeated request counts once.
//
// It shows how an application uses Rondel; it sells nothing and knows no users.
package shop
