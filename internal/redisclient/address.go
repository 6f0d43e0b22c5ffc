package redisclient

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"unicode"

	"github.com/redis/go-redis/v9"
)

// SetAddresses sets the addresses in options. Each address is host:port, the path of a socket, or a
// URL, which may name a database, and a user and a password: of the Sentinels if there is a
// MasterName. What options have already counts more. HasTLS says that an address is rediss://.
func SetAddresses(options *redis.UniversalOptions, addresses ...string) (hasTLS bool, err error) {
	user, password := &options.Username, &options.Password
	if options.MasterName != "" {
		user, password = &options.SentinelUsername, &options.SentinelPassword
	}
	options.Addrs = nil
	for i, address := range addresses {
		parsed, err := readAddress(address)
		if err != nil {
			return hasTLS, fmt.Errorf("address %d %w", i+1, err)
		}
		options.Addrs = append(options.Addrs, parsed.Addr)
		options.DB = cmp.Or(options.DB, parsed.DB)
		*user, *password = cmp.Or(*user, parsed.Username), cmp.Or(*password, parsed.Password)
		hasTLS = hasTLS || parsed.TLSConfig != nil
	}
	return hasTLS, nil
}

// readAddress reads host:port, the path of a socket, or a URL. Its error does not show what may
// hold a password.
func readAddress(address string) (*redis.Options, error) {
	if address == "" {
		return nil, errors.New("is empty: it must be host:port, the path of a socket, or a URL such as redis://host:6379")
	}
	isURL := strings.Contains(address, "@") || strings.Contains(address, "://")
	parsed := &redis.Options{Addr: address}
	if isURL {
		var err error
		parsed, err = redis.ParseURL(address)
		if err != nil {
			return nil, errors.New("is not like redis://user:password@host:6379, with special characters escaped as in %40")
		}
	}
	if strings.HasPrefix(parsed.Addr, "/") {
		return parsed, nil
	}
	host, port, err := net.SplitHostPort(parsed.Addr)
	number, notNumber := strconv.ParseUint(port, 10, 16)
	if err == nil && notNumber == nil && number > 0 && !strings.ContainsFunc(host, unicode.IsSpace) {
		return parsed, nil
	}
	shown := "is '" + address + "': it "
	if isURL {
		shown = ""
	}
	return nil, fmt.Errorf("%smust be host:port with a port from 1 to 65535, and without spaces, "+
		"as in localhost:6379", shown)
}
