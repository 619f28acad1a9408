package main

// How the peer gets to libvirtd: a fresh SSH connection for every session, and a forward to the socket on it.

import (
	"encoding/json"
	"fmt"
	"net"
	"os"

	libvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

type settings struct {
	User           string
	PrivateKeyFile string
	KnownHostsFile string
	SocketPath     string
	MetadataUri    string
	Fleet          string
}

type peer struct {
	settings settings
	client   *ssh.ClientConfig
}

func newPeer(argument string) (*peer, error) {
	made := &peer{}
	if err := json.Unmarshal([]byte(argument), &made.settings); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(made.settings.PrivateKeyFile)
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return nil, err
	}
	checkHost, err := knownhosts.New(made.settings.KnownHostsFile)
	if err != nil {
		return nil, err
	}
	made.client = &ssh.ClientConfig{
		User:              made.settings.User,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(key)},
		HostKeyCallback:   checkHost,
		HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
	}
	return made, nil
}

// tunnel is what go-libvirt asks for a connection: one to the socket on the host, over a fresh SSH connection.
type tunnel struct {
	peer  *peer
	given order
	ssh   *ssh.Client
}

func (t *tunnel) Dial() (net.Conn, error) {
	address := net.JoinHostPort(t.given.Address, fmt.Sprint(t.given.Port))
	client, err := ssh.Dial("tcp", address, t.peer.client)
	if err != nil {
		return nil, err
	}
	t.ssh = client
	return client.Dial("unix", t.peer.settings.SocketPath)
}

func (p *peer) connect(given order) (*libvirt.Libvirt, func(), error) {
	way := &tunnel{peer: p, given: given}
	connection := libvirt.NewWithDialer(way)
	closeAll := func() {
		_ = connection.Disconnect()
		if way.ssh != nil {
			_ = way.ssh.Close()
		}
	}
	if err := connection.Connect(); err != nil {
		if way.ssh != nil {
			_ = way.ssh.Close()
		}
		return nil, nil, err
	}
	return connection, closeAll, nil
}
