// Package clients holds no code but tests: what docs/clients.md and
// docs/moving-from-redis-rate.md say is run here, with the clients themselves,
// against real servers.
package clients
