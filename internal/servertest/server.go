// Package servertest starts real servers for tests: Redis or Valkey, with the module or without,
// each on its own loopback port and in its own temporary directory, and stops them when the test
// ends.
//
// The environment names server and module. One suite runs against many:
//
//	FUNNEL_SERVER        the server program; redis-server from the PATH by default
//	FUNNEL_MODULE        a built funnel.so; built afresh by default
//	FUNNEL_DEBUG_MODULE  the same with the tag funneldebug
package servertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Patience is the timeout of tests that wait for a condition of a real server. Test machines stall
// for seconds.
const Patience = 60 * time.Second

// Options say what to start. The zero Options start a bare server.
type Options struct {
	// Module is the path of a module to load, or empty for none: see [Module] and [DebugModule].
	Module string

	// ModuleArguments follow the module on its loadmodule line.
	ModuleArguments []string

	// Config holds further arguments of the server, such as "--appendonly", "yes". Without any,
	// nothing is saved to disk.
	Config []string

	// Wrapper is a command line that runs the server, such as callgrind's.
	Wrapper []string
}

// A Server is a running, or stopped, server process.
type Server struct {
	// Port is the loopback port, the same after a restart.
	Port int

	// Dir is where the server keeps its files, the same after a restart.
	Dir string

	options Options
	process *exec.Cmd
	exited  chan struct{} // closed when the process has ended
}

// Start starts a server and waits until it answers. If it does not answer, the test fails. When the
// test ends, the server is stopped; if the test has failed, the end of the server's log is shown.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	server := &Server{Dir: t.TempDir(), options: options}
	t.Cleanup(func() {
		server.Stop()
		if t.Failed() {
			t.Logf("end of the log of the server on port %d:\n%s", server.Port, server.logTail())
		}
	})
	err := server.start()
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// Run is Start for programs, which have no test that ends: [Server.Close] ends the server.
func Run(options Options) (*Server, error) {
	folder, err := os.MkdirTemp("", "funnel-server-")
	if err != nil {
		return nil, err
	}
	server := &Server{Dir: folder, options: options}
	err = server.start()
	if err != nil {
		server.Close()
		return nil, err
	}
	return server, nil
}

// Close kills the server that [Run] has started, and removes its files.
func (s *Server) Close() {
	s.Kill()
	os.RemoveAll(s.Dir)
}

// start starts the server for the first time, on a port that it chooses.
func (s *Server) start() error {
	// Another process may take a port between its choice and its use. A cluster bus listens 10000
	// ports higher, among the ports of outgoing connections.
	for attempt := 1; ; attempt++ {
		var err error
		s.Port, err = freePort()
		if err != nil {
			return err
		}
		err = s.launch()
		if err == nil || attempt == 5 || !bytes.Contains([]byte(s.Log()), []byte("Address already in use")) {
			return err
		}
	}
}

// FreePort returns a loopback port without a listener.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// freePort returns a port below 55000: the port of a cluster bus is 10000 higher.
func freePort() (int, error) {
	for {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := listener.Addr().(*net.TCPAddr).Port
		listener.Close()
		if port < 55000 {
			return port, nil
		}
	}
}

// Program is the path of the server program.
func Program() string {
	program := os.Getenv("FUNNEL_SERVER")
	if program != "" {
		return program
	}
	return "redis-server"
}

// launch starts the process, and waits until it answers.
func (s *Server) launch() error {
	err := s.spawn()
	if err != nil {
		return err
	}
	return s.waitUntilReady()
}

func (s *Server) spawn() error {
	arguments := []string{
		"--port", strconv.Itoa(s.Port),
		"--bind", "127.0.0.1",
		"--dir", s.Dir,
		"--logfile", s.logPath(),
	}
	version, err := serverVersion()
	if err != nil {
		return err
	}
	if version[0] >= 7 { // before, these commands were never disabled
		arguments = append(arguments, "--enable-debug-command", "yes", "--enable-module-command", "yes")
	}
	if len(s.options.Config) == 0 {
		arguments = append(arguments, "--save", "")
	}
	arguments = append(arguments, s.options.Config...)
	if s.options.Module != "" {
		arguments = append(arguments, "--loadmodule", s.options.Module)
		arguments = append(arguments, s.options.ModuleArguments...)
	}

	line := slices.Concat(s.options.Wrapper, []string{Program()}, arguments)
	s.process = exec.Command(line[0], line[1:]...)
	// A test binary that is killed takes its servers with it. Each server leads a process group,
	// for Kill.
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	err = s.process.Start()
	if err != nil {
		return fmt.Errorf("start %s: %w", line[0], err)
	}
	s.exited = make(chan struct{})
	go func(process *exec.Cmd, exited chan struct{}) {
		process.Wait()
		close(exited)
	}(s.process, s.exited)
	return nil
}

// waitUntilReady waits until the server answers PING, and does not say that it is still loading.
func (s *Server) waitUntilReady() error {
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
	defer client.Close()
	deadline := time.Now().Add(Patience)
	for {
		// The client would log each failure to connect.
		connection, err := net.Dial("tcp", s.Addr())
		if err == nil {
			connection.Close()
			err = client.Ping(context.Background()).Err()
			if err == nil {
				return nil
			}
		}
		select {
		case <-s.exited:
			return fmt.Errorf("the server has ended (%v):\n%s", s.process.ProcessState, s.logTail())
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the server does not answer: %w\n%s", err, s.logTail())
		}
	}
}

// Addr is the address to connect to.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// Pid is the process of the server.
func (s *Server) Pid() int { return s.process.Process.Pid }

// Client connects to the server, until the test ends. A function may change the options; by default
// a command is sent once and never again, because a retry would take twice.
func (s *Server) Client(t testing.TB, change ...func(*redis.Options)) *redis.Client {
	t.Helper()
	client := s.NewClient(change...)
	t.Cleanup(func() { client.Close() })
	return client
}

// NewClient is Client for programs, which close it themselves.
func (s *Server) NewClient(change ...func(*redis.Options)) *redis.Client {
	options := &redis.Options{Addr: s.Addr(), MaxRetries: -1, ReadTimeout: Patience, WriteTimeout: Patience}
	for _, change := range change {
		change(options)
	}
	return redis.NewClient(options)
}

// Log is all that the server has logged.
func (s *Server) Log() string {
	log, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	return string(log)
}

func (s *Server) logPath() string { return filepath.Join(s.Dir, "server.log") }

func (s *Server) logTail() string {
	const most = 4000
	log := s.Log()
	return log[max(0, len(log)-most):]
}

// Signal sends a signal to the server.
func (s *Server) Signal(signal syscall.Signal) error { return s.process.Process.Signal(signal) }

// Wait waits until the server has ended, and returns how.
func (s *Server) Wait() (*os.ProcessState, error) {
	select {
	case <-s.exited:
		return s.process.ProcessState, nil
	case <-time.After(Patience):
		return nil, errors.New("the server has not ended")
	}
}

// Kill ends the server with SIGKILL, and waits until it is gone. The processes that the server has
// forked to save its data end with it.
func (s *Server) Kill() {
	if s.exited == nil {
		return
	}
	select {
	case <-s.exited: // another process may have the number by now
	default:
		syscall.Kill(-s.Pid(), syscall.SIGKILL)
	}
	s.end(syscall.SIGKILL)
}

// Stop asks the server to shut down, and kills the server if it does not.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

func (s *Server) end(signal syscall.Signal) {
	if s.exited == nil {
		return
	}
	s.Signal(signal)
	_, err := s.Wait()
	if err != nil {
		s.Signal(syscall.SIGKILL)
		<-s.exited
	}
}

// Restart starts a stopped or killed server again: same port, same files.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	err := s.launch()
	if err != nil {
		t.Fatal(err)
	}
}

// Reconfigure changes the options that the next [Server.Restart] uses.
func (s *Server) Reconfigure(change func(*Options)) { change(&s.options) }
