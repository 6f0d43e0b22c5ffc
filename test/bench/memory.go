package bench

import (
	"context"
	"fmt"
	"strings"
)

const (
	// memoryKeys is how many keys the growth of the server is spread over.
	memoryKeys = 100_000

	// memoryCalls is how many calls a busy key has seen.
	memoryCalls = 100
)

// A Memory is what one key takes, in bytes.
type Memory struct {
	Name  string `json:"name"`
	Title string `json:"title"`

	// First and Busy are what MEMORY USAGE says after one allowed call, and after
	// a hundred.
	First int64 `json:"memory_usage_after_1_call"`
	Busy  int64 `json:"memory_usage_after_100_calls"`

	// Whole is how much the server grows per key after one call. It includes what
	// MEMORY USAGE leaves out: the entry among the keys that expire, and the share
	// of the hash tables.
	Whole float64 `json:"server_bytes_per_key"`
}

// MeasureMemory measures all alternatives but plain commands other than SET. When
// it is interrupted it returns what it has.
func MeasureMemory(ctx context.Context, servers map[string]*Server, alternatives []Alternative, progress func(string, ...any)) ([]Memory, error) {
	var results []Memory
	for _, a := range alternatives {
		if !a.Limits && a.Name != Reference {
			continue
		}
		progress("memory: %s", a.Title)
		memory, err := measureMemory(ctx, servers[a.Server], a)
		if err != nil {
			return results, err
		}
		results = append(results, memory)
	}
	return results, nil
}

func measureMemory(ctx context.Context, server *Server, a Alternative) (Memory, error) {
	result := Memory{Name: a.Name, Title: a.Title}
	w := newWorkload(a, 0)
	if a.Setup != nil {
		if err := a.Setup(ctx, server.Client); err != nil {
			return result, err
		}
	}
	player, err := newPlayer(ctx, server.Address, 0)
	if err != nil {
		return result, err
	}
	defer player.close()

	// What another alternative has left under the same keys means nothing to this one.
	if err := server.empty(ctx); err != nil {
		return result, err
	}
	// Once for nothing: buffers and tables that stay have been made then.
	if err := player.each(w.roomy, memoryKeys); err != nil {
		return result, err
	}
	if err := server.empty(ctx); err != nil {
		return result, err
	}
	before, err := server.infoNumber(ctx, "memory", "used_memory")
	if err != nil {
		return result, err
	}
	if err := player.each(w.roomy, memoryKeys); err != nil {
		return result, err
	}
	after, err := server.infoNumber(ctx, "memory", "used_memory")
	if err != nil {
		return result, err
	}
	result.Whole = (after - before) / memoryKeys

	if result.First, err = memoryUsage(ctx, server, a); err != nil {
		return result, err
	}
	for range memoryCalls - 1 {
		if err := player.each(w.roomy, 1); err != nil {
			return result, err
		}
	}
	result.Busy, err = memoryUsage(ctx, server, a)
	return result, err
}

// memoryUsage asks for one key, which redis_rate calls by another name.
func memoryUsage(ctx context.Context, server *Server, a Alternative) (int64, error) {
	name := fmt.Sprintf("%s%0*d", roomyPrefix, keyDigits, 0)
	for _, word := range a.Operation(Roomy, 1).Commands[0] {
		if strings.HasSuffix(word, "{key}") {
			name = strings.ReplaceAll(word, "{key}", name)
		}
	}
	return server.Client.MemoryUsage(ctx, name).Result()
}
