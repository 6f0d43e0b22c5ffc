package bench

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// A Scale is the cost of CL.THROTTLE and SET PX in one setting: processor time of
// the server per call, in microseconds, and calls per second.
type Scale struct {
	Keys    int64 `json:"keys"`
	Clients int   `json:"clients"`
	AOF     bool  `json:"aof"`
	Replica bool  `json:"replica"`

	Throttle           Spread `json:"throttle_processor_microseconds"`
	Set                Spread `json:"set_processor_microseconds"`
	Ratio              Spread `json:"processor_ratio"`
	ThrottleThroughput Spread `json:"throttle_calls_per_second"`
	SetThroughput      Spread `json:"set_calls_per_second"`
}

// A ScaleOptions says how far to go.
type ScaleOptions struct {
	Program  string
	Module   string
	Keys     []int64 // with 10 clients
	Clients  []int   // with 100,000 keys
	Pipeline int
	Rounds   int
	Round    time.Duration
	Progress func(format string, arguments ...any)
}

const (
	scaleClients = 10      // while keys vary
	scaleKeys    = 100_000 // while clients or durability vary
)

// MeasureScale varies one thing at a time: the number of keys, the number of
// clients, and who else has to be told of each write. When it is interrupted it
// returns what it has.
func MeasureScale(ctx context.Context, options ScaleOptions) ([]Scale, error) {
	var settings []Scale
	for _, keys := range options.Keys {
		settings = append(settings, Scale{Keys: keys, Clients: scaleClients})
	}
	for _, clients := range options.Clients {
		settings = append(settings, Scale{Keys: scaleKeys, Clients: clients})
	}
	for _, listeners := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
		settings = append(settings, Scale{Keys: scaleKeys, Clients: scaleClients, AOF: listeners[0], Replica: listeners[1]})
	}
	for i := range settings {
		if err := measureSetting(ctx, options, &settings[i]); err != nil {
			return settings[:i], err
		}
	}
	return settings, nil
}

func measureSetting(ctx context.Context, options ScaleOptions, setting *Scale) error {
	options.Progress("scale: %d keys, %d clients, AOF %t, replica %t", setting.Keys, setting.Clients, setting.AOF, setting.Replica)
	var config []string
	if setting.AOF {
		config = append(config, "--appendonly", "yes", "--appendfsync", "everysec")
	}
	return withServer(ctx, ServerOptions{Program: options.Program, Modules: []string{options.Module}, Config: config}, func(server *Server) error {
		if !setting.Replica {
			return measureScale(ctx, options, server, setting)
		}
		// The replica needs no module. It competes with the server for processors,
		// which shows in calls per second, not in processor time per call.
		_, port, _ := strings.Cut(server.Address, ":")
		config := []string{"--replicaof", "127.0.0.1 " + port}
		return withServer(ctx, ServerOptions{Program: options.Program, Config: config}, func(replica *Server) error {
			if err := waitForReplica(ctx, replica); err != nil {
				return err
			}
			return measureScale(ctx, options, server, setting)
		})
	})
}

func measureScale(ctx context.Context, options ScaleOptions, server *Server, setting *Scale) error {
	pair, err := Choose([]string{"set", "throttle"}, false)
	if err != nil {
		return err
	}
	load := WallClockOptions{Clients: setting.Clients, Pipeline: options.Pipeline, Keys: setting.Keys, Round: options.Round}
	// Both use the same keys, filled once, since that takes longer than measuring:
	// what SET has stored here is an empty funnel to CL.THROTTLE.
	workloads := [2]workload{newWorkload(pair[0], 0), newWorkload(pair[1], 0)}
	players, err := prepare(ctx, server, &workloads[0], setting.Clients, setting.Keys)
	if err != nil {
		return err
	}
	defer closeAll(players)
	var rounds [2][]round
	for range options.Rounds {
		for i := range workloads {
			r, err := playRound(ctx, server, players, &workloads[i], load)
			if err != nil {
				return err
			}
			rounds[i] = append(rounds[i], r)
		}
	}
	processor := func(r round) float64 { return r.processor }
	throughput := func(r round) float64 { return r.throughput }
	setting.Set, setting.Throttle = spreadOver(rounds[0], processor), spreadOver(rounds[1], processor)
	setting.Ratio = ratioOver(rounds[1], rounds[0], processor)
	setting.SetThroughput, setting.ThrottleThroughput = spreadOver(rounds[0], throughput), spreadOver(rounds[1], throughput)
	return nil
}

func waitForReplica(ctx context.Context, replica *Server) error {
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		fields, err := replica.info(ctx, "replication")
		if err != nil {
			return err
		}
		if fields["master_link_status"] == "up" {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("the replica has not connected within %s", patience)
}
