// go-libvirt over golang.org/x/crypto/ssh as a warm peer: the usual way to reach a libvirtd from Go without C.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
)

const (
	metadataElement   = 2 // VIR_DOMAIN_METADATA_ELEMENT
	addressesOfLeases = 0 // VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE
	// As many calls as this project's provider has under way.
	inFlight = 128
)

type order struct {
	Op      string
	Address string
	Port    int
	Vm      string
}

type answer struct {
	Ms        float64  `json:"ms"`
	State     int32    `json:"state"`
	Metadata  string   `json:"metadata"`
	Addresses []string `json:"addresses"`
	Count     int      `json:"count"`
}

func main() {
	peer, err := newPeer(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		var given order
		var result any
		err := json.Unmarshal(orders.Bytes(), &given)
		if err == nil {
			result, err = peer.carryOut(given)
		}
		if err != nil {
			result = map[string]string{"error": err.Error()}
		}
		line, _ := json.Marshal(result)
		fmt.Println(string(line))
	}
}

func (p *peer) carryOut(given order) (*answer, error) {
	switch given.Op {
	case "session":
		return p.session(given, 1)
	case "session-together":
		return p.session(given, inFlight)
	case "list":
		return p.list(given, 1)
	case "list-together":
		return p.list(given, inFlight)
	}
	return nil, fmt.Errorf("no order %q", given.Op)
}

func (p *peer) session(given order, together int) (*answer, error) {
	start := time.Now()
	connection, closeAll, err := p.connect(given)
	if err != nil {
		return nil, err
	}
	domain, err := connection.DomainLookupByName(given.Vm)
	if err != nil {
		closeAll()
		return nil, err
	}
	read := answer{Addresses: []string{}}
	calls := []func() error{
		func() (err error) {
			read.State, _, err = connection.DomainGetState(domain, 0)
			return err
		},
		func() (err error) {
			read.Metadata, err = p.metadata(connection, domain)
			return err
		},
		func() error {
			interfaces, err := connection.DomainInterfaceAddresses(domain, addressesOfLeases, 0)
			for _, each := range interfaces {
				for _, address := range each.Addrs {
					read.Addresses = append(read.Addresses, address.Addr)
				}
			}
			return err
		},
	}
	err = run(calls, together)
	closeAll()
	read.Ms = milliseconds(start)
	return &read, err
}

func (p *peer) list(given order, together int) (*answer, error) {
	connection, closeAll, err := p.connect(given)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	start := time.Now()
	domains, _, err := connection.ConnectListAllDomains(1, 0)
	if err != nil {
		return nil, err
	}
	elements := make([]string, len(domains))
	calls := make([]func() error, len(domains))
	for i := range domains {
		i := i
		calls[i] = func() error {
			if _, _, err := connection.DomainGetState(domains[i], 0); err != nil {
				return err
			}
			// A domain of somebody else has no such element.
			elements[i], _ = p.metadata(connection, domains[i])
			return nil
		}
	}
	if err := run(calls, together); err != nil {
		return nil, err
	}
	listed := &answer{Ms: milliseconds(start), Addresses: []string{}}
	for _, element := range elements {
		if strings.Contains(element, "fleet=\""+p.settings.Fleet+"\"") {
			listed.Count++
		}
	}
	return listed, nil
}

func (p *peer) metadata(connection *libvirt.Libvirt, domain libvirt.Domain) (string, error) {
	uri := libvirt.OptString{p.settings.MetadataUri}
	return connection.DomainGetMetadata(domain, metadataElement, uri, libvirt.DomainAffectConfig)
}

// run makes the calls with at most so many under way, and returns the first error.
func run(calls []func() error, together int) error {
	if together == 1 {
		for _, call := range calls {
			if err := call(); err != nil {
				return err
			}
		}
		return nil
	}
	var waiting sync.WaitGroup
	errors := make(chan error, len(calls))
	slots := make(chan struct{}, together)
	for _, call := range calls {
		waiting.Add(1)
		slots <- struct{}{}
		go func(call func() error) {
			defer waiting.Done()
			errors <- call()
			<-slots
		}(call)
	}
	waiting.Wait()
	close(errors)
	for err := range errors {
		if err != nil {
			return err
		}
	}
	return nil
}

func milliseconds(start time.Time) float64 {
	return float64(time.Since(start).Microseconds()) / 1000
}
