package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// startPatience is how long a server may take to answer for the first time, also
// under callgrind and on a busy machine.
const startPatience = 60 * time.Second

// A ServerOptions says what to start.
type ServerOptions struct {
	// Program is the path of redis-server or valkey-server.
	Program string

	// Wrapper is a command line that runs the server, callgrind's for instance.
	Wrapper []string

	// Modules are the paths of modules to load.
	Modules []string

	// Config holds further arguments of the server.
	Config []string
}

// A Server is a server process that listens on a loopback port and keeps its
// files in a temporary folder, both its own.
type Server struct {
	// Address is what to connect to.
	Address string

	// Client is a client that sends each command once.
	Client *redis.Client

	// StartTime is the time from its start to its first answer.
	StartTime time.Duration

	folder  string
	process *exec.Cmd
	exited  chan struct{} // closed when the process has ended
}

// StartServer starts a server and waits for its first answer. The server ends
// with [Server.Stop], or when ctx ends.
func StartServer(ctx context.Context, options ServerOptions) (*Server, error) {
	folder, err := os.MkdirTemp("", "funnel-bench-")
	if err != nil {
		return nil, err
	}
	server, err := startIn(ctx, folder, options)
	if err != nil {
		os.RemoveAll(folder)
	}
	return server, err
}

func startIn(ctx context.Context, folder string, options ServerOptions) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &Server{Address: net.JoinHostPort("127.0.0.1", port), folder: folder, exited: make(chan struct{})}

	line := append([]string{}, options.Wrapper...)
	line = append(line, options.Program, "--port", port, "--bind", "127.0.0.1", "--dir", folder,
		"--logfile", s.path("server.log"), "--save", "", "--maxclients", "10000")
	line = append(line, options.Config...)
	for _, module := range options.Modules {
		line = append(line, "--loadmodule", module)
	}
	s.process = exec.CommandContext(ctx, line[0], line[1:]...)
	var output bytes.Buffer
	s.process.Stdout, s.process.Stderr = &output, &output
	// A tool that is killed takes its servers with it.
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}

	start := time.Now()
	if err := s.process.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the server: %w", err)
	}
	go func() {
		s.process.Wait()
		close(s.exited)
	}()
	if err := s.waitUntilReady(ctx); err != nil {
		s.process.Process.Kill()
		<-s.exited
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("%w\n%s%s", err, tail(output.Bytes()), tail(s.log()))
	}
	s.StartTime = time.Since(start)
	s.Client = redis.NewClient(&redis.Options{
		Addr: s.Address, MaxRetries: -1, ReadTimeout: patience, WriteTimeout: patience,
		Protocol: 2, DisableIdentity: true,
	})
	return s, nil
}

// waitUntilReady asks until the server answers. It uses no client library, whose
// own waiting would show in StartTime.
func (s *Server) waitUntilReady(ctx context.Context) error {
	deadline := time.Now().Add(startPatience)
	for time.Now().Before(deadline) {
		if connection, err := dial(ctx, s.Address); err == nil {
			err = connection.send([]byte("PING\r\n"))
			if err == nil {
				_, err = connection.receive()
			}
			connection.close()
			var refused errorReply
			// Anything but an error: a server that is loading its data answers with one.
			if err == nil {
				return nil
			}
			if errors.As(err, &refused) && !strings.HasPrefix(string(refused), "LOADING") {
				return err
			}
		}
		select {
		case <-s.exited:
			return fmt.Errorf("the server has ended: %v", s.process.ProcessState)
		case <-time.After(time.Millisecond):
		}
	}
	return errors.New("the server does not answer")
}

// Stop ends the server at once and removes its files.
func (s *Server) Stop() {
	s.Client.Close()
	// Nothing of it is to be kept, so there is nothing to shut down in good order.
	s.process.Process.Kill()
	<-s.exited
	os.RemoveAll(s.folder)
}

// Pid is the process of the server.
func (s *Server) Pid() int { return s.process.Process.Pid }

func (s *Server) path(name string) string { return filepath.Join(s.folder, name) }

func (s *Server) log() []byte {
	log, _ := os.ReadFile(s.path("server.log"))
	return log
}

// tail is the end of a log, which says why a server would not start.
func tail(log []byte) []byte {
	const most = 1500
	return log[max(0, len(log)-most):]
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port), nil
}

// info reads fields of INFO.
func (s *Server) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := s.Client.Info(ctx, section).Result()
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	return fields, nil
}

// infoNumber reads one field of INFO that is a number.
func (s *Server) infoNumber(ctx context.Context, section string, names ...string) (float64, error) {
	fields, err := s.info(ctx, section)
	if err != nil {
		return 0, err
	}
	var sum float64
	for _, name := range names {
		number, err := strconv.ParseFloat(fields[name], 64)
		if err != nil {
			return 0, fmt.Errorf("INFO %s of the server has no number %s: %w", section, name, err)
		}
		sum += number
	}
	return sum, nil
}

// processorSeconds is the processor time of the server so far, of all its threads.
func (s *Server) processorSeconds(ctx context.Context) (float64, error) {
	return s.infoNumber(ctx, "cpu", "used_cpu_user", "used_cpu_sys")
}

// empty removes all keys, and their memory, before it returns.
func (s *Server) empty(ctx context.Context) error {
	return s.Client.Do(ctx, "FLUSHALL", "SYNC").Err()
}

// Version names the server as "redis 7.0.15".
func (s *Server) Version(ctx context.Context) (string, error) {
	fields, err := s.info(ctx, "server")
	if err != nil {
		return "", err
	}
	// Valkey states the Redis version that it is compatible with, too.
	if version := fields["valkey_version"]; version != "" {
		return "valkey " + version, nil
	}
	return "redis " + fields["redis_version"], nil
}

// ModuleVersion names the first module as "funnel 100", or "funnel 0.1.0 (commit)"
// if it tells INFO so.
func (s *Server) ModuleVersion(ctx context.Context) (string, error) {
	fields, err := s.info(ctx, "funnel")
	if err != nil {
		return "", err
	}
	if version := fields["funnel_version"]; version != "" {
		return fmt.Sprintf("funnel %s (%s)", version, fields["funnel_commit"]), nil
	}
	modules, err := s.Client.Do(ctx, "MODULE", "LIST").Slice()
	if err != nil {
		return "", err
	}
	for _, module := range modules {
		words, _ := module.([]any)
		// Name and version, and more in newer servers.
		if len(words) >= 4 && words[1] != "bench" {
			return fmt.Sprintf("%v %v", words[1], words[3]), nil
		}
	}
	return "", errors.New("the server lists no module")
}
