package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"funnel/limiter"
	"funnel/limiter/grpclimit"
)

// dial starts a server with a service, and connects to it.
func dial(server *grpc.Server) (client testpb.TestServiceClient, stop func()) {
	testpb.RegisterTestServiceServer(server, service{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go server.Serve(listener)
	connection, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	return testpb.NewTestServiceClient(connection), func() { connection.Close(); server.Stop() }
}

// Of each address, two calls may come at once, and then one every 30 minutes.
func ExampleNew() {
	l := limiter.NewLocal() // in a program with several processes: limiter.New(rdb)

	limit := grpclimit.New(l, "reply", limiter.PerHour(2))
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(limit.Unary),
		grpc.ChainStreamInterceptor(limit.Stream))

	client, stop := dial(server)
	defer stop()
	for range 3 {
		_, err := client.UnaryCall(context.Background(), &testpb.SimpleRequest{})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
}

// The limit of a call may depend on the call: here, expensive methods have a smaller one, in a
// funnel of their own.
func ExampleNew_methods() {
	limitOf := func(call grpclimit.Call) limiter.Limit {
		if call.Method == "/grpc.testing.TestService/UnaryCall" {
			return limiter.PerHour(1)
		}
		return limiter.PerHour(1000)
	}
	limit := grpclimit.New(limiter.NewLocal(), "api", limitOf,
		grpclimit.WithKey(grpclimit.Join(grpclimit.ByMethod(), grpclimit.ByPeer())))

	client, stop := dial(grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary)))
	defer stop()
	for range 2 {
		_, err := client.UnaryCall(context.Background(), &testpb.SimpleRequest{})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// ResourceExhausted
}

// A stream takes a token when it begins, and one for each message that it receives.
func ExampleWithMessages() {
	limit := grpclimit.New(limiter.NewLocal(), "chat", limiter.PerHour(3), grpclimit.WithMessages())
	client, stop := dial(grpc.NewServer(grpc.ChainStreamInterceptor(limit.Stream)))
	defer stop()

	stream, err := client.FullDuplexCall(context.Background())
	for err == nil {
		err = stream.Send(&testpb.StreamingOutputCallRequest{})
		if err == nil || errors.Is(err, io.EOF) { // Recv says why the stream has ended
			_, err = stream.Recv()
		}
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
}
