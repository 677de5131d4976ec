// Package certs keeps the certificates that the proxy shows to its clients.
//
// It owns the pairs of files that the operator names, and looks at them every
// second while Run runs, so that a renewed certificate needs no reload. Others,
// which somebody obtains while the agent runs, are handed to it.
//
// It promises: a handshake reads one immutable index and waits for nobody; what
// is shown is always a certificate with the key that belongs to it; while files
// cannot be used, what they held before is shown, and the log says once what to
// do; a certificate that will soon expire is warned of from 14 days ahead.
//
// It does not obtain certificates, staple OCSP answers, or check that anybody
// trusts what it shows.
package certs
