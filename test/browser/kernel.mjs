/** A kernel that Jupyter's server has started, and its messages. */
export class Kernel {
  static async start(url, token) {
    const kernel = new Kernel();
    kernel.headers = { Authorization: `token ${token}` };
    const started = await fetch(`${url}/api/kernels`, { method: 'POST', headers: kernel.headers, body: JSON.stringify({ name: 'cs336' }) });
    kernel.address = `${url}/api/kernels/${(await started.json()).id}`;
    kernel.serial = 0;
    kernel.socket = new WebSocket(`${kernel.address.replace(/^http/, 'ws')}/channels?session_id=browser-test&token=${token}`);
    kernel.socket.onmessage = event => kernel.waiting?.(JSON.parse(event.data));
    await new Promise((resolve, reject) => Object.assign(kernel.socket, { onopen: resolve, onerror: reject }));
    return kernel;
  }

  /** Sends a request and returns the content of the message of the given type that answers it. */
  ask(type, content, answer) {
    const id = `browser-test-${this.serial++}`;
    const header = { msg_id: id, msg_type: type, session: 'browser-test', username: '', version: '5.3', date: new Date().toISOString() };
    return new Promise(resolve => {
      this.waiting = message => message.parent_header?.msg_id === id && message.msg_type === answer && resolve(message.content);
      this.socket.send(JSON.stringify({ header, parent_header: {}, metadata: {}, content, channel: 'shell', buffers: [] }));
    });
  }

  async end() {
    this.socket.close();
    await fetch(this.address, { method: 'DELETE', headers: this.headers });
  }
}
