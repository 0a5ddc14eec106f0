"""Ports of kernels with a full signature to ``mx.fast.metal_kernel``.

``embercoach port`` calls ``ported_modules``. ``flat_texts`` puts included files and kernels of
macros into the text, ``entry_points`` reads it, ``port_arguments`` decides what each parameter
becomes, ``array_flows`` what the body does with arrays, ``bodies`` edits the text of the body,
``initial_copies`` adds the copies of arrays that the kernel updates.
"""
